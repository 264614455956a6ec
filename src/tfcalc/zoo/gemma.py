"""Gemma: Llama with a head width of its own, a tied head, and norms on both sides of each sub-layer."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention
from tfcalc.nn.layers import PreNorm, Sandwich
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.gemma import CAPPED, CODE
from tfcalc.zoo.blocks.layers import full_and_sliding, windows


@family("gemma")
def gemma(c: Config) -> Module:
    """Gemma (arXiv 2403.08295): Llama with GeGLU and a tied head."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    return scaled(decoders.decoder(c, decoders.layer(c, mixer, decoders.gated(c), code=CODE), code=CODE))


def scaled(decoder: Decoder) -> Decoder:
    """The same, whose embedding is multiplied by √h."""
    return decoder.replace(scales=True)


def capped(c: Config, mixer: Attention) -> Attention:
    """The same, whose scores are kept under a cap, where there is one."""
    return mixer.replace(capped=c.get("attn_logit_softcapping") is not None)


@family("gemma2", heads=CAPPED)
def gemma2(c: Config) -> Module:
    """Gemma 2 (arXiv 2408.00118): four norms a layer; every other layer sees a window."""
    return half_seeing(c, Sandwich, decoders.SANDWICH)


@family("vaultgemma", heads=CAPPED)
def vaultgemma(c: Config) -> Module:
    """VaultGemma (arXiv 2510.15001): Gemma 2 without the norms after the sub-layers."""
    return half_seeing(c, PreNorm, ("input_layernorm", "pre_feedforward_layernorm"))


def half_seeing(c: Config, of: type[PreNorm], norms: Sequence[str]) -> Decoder:
    """Layers of which every other sees a window, with these norms."""
    mixer = capped(c, decoders.attention(c, bias=c.flag("attention_bias")))
    layer = decoders.layer(c, mixer, decoders.gated(c, act="hidden_activation"), of=of, names=norms, code=CODE)
    layers = decoders.with_windows(layer, windows(c, lambda place: place % 2 == 0))
    return scaled(decoders.decoder(c, layers, code=CODE, masks=full_and_sliding(c)))


@family(
    "gemma3_text",
    architecture="Gemma3TextModel",
    heads=CAPPED,
    sliding_window_pattern=6,  # by __post_init__, for older configs
)
def gemma3(c: Config) -> Module:
    """Gemma 3 (arXiv 2503.19786): four norms a layer, and a norm of each head's query and key.

    All layers but every sixth see a window.
    """
    every, causal = c.number("sliding_window_pattern"), not c.flag("use_bidirectional_attention")
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", code=CODE, causal=causal)
    mixer, ffn = (
        capped(c, mixer).replace(rope=decoders.rope(c, by_window=True)),
        decoders.gated(c, act="hidden_activation"),
    )
    layer = decoders.layer(c, mixer, ffn, of=Sandwich, names=decoders.SANDWICH, code=CODE)
    layers = decoders.with_windows(layer, windows(c, lambda place: (place + 1) % every != 0))
    return scaled(decoders.decoder(c, layers, code=CODE, masks=full_and_sliding(c)))
