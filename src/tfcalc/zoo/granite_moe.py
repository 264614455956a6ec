"""Granite's mixtures of experts: Mixtral's with multipliers, and perhaps a shared network beside."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm, PreNormSharedNorm
from tfcalc.nn.mixture import RouterCode
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.layers import full_and_sliding, windows

HEADS = tops.CAUSAL_LM | tops.scaled_lm()


def shared_mlp(c: Config) -> tuple[GatedFeedForward, ...]:
    """The network that every token goes through beside its experts; none where it is 0 wide."""
    if not c.number("shared_intermediate_size", least=0):
        return ()
    width = c.size("shared_intermediate_size")
    return (decoders.gated(c, name="shared_mlp", width=width, names=("input_linear", "output_linear")),)


def layer(c: Config, mixer: Module, *shared: GatedFeedForward) -> PreNorm:
    """A layer of a mixer, experts, and what is ``shared`` by all tokens."""
    mixed = experts.mixture(
        c, name="block_sparse_moe", router="router", best_first=True, code=RouterCode(logits="float32", result="stream")
    )
    return decoders.layer(c, mixer, mixed, *shared, of=PreNormSharedNorm if shared else PreNorm).replace(scales=True)


@family("granitemoe", heads=HEADS)
def granitemoe(c: Config) -> Module:
    """Granite 3.0 (IBM 2024, technical report); transformers' GraniteMoeModel."""
    return decoders.decoder(c, layer(c, decoders.attention(c, bias=c.flag("attention_bias")))).replace(scales=True)


@family("granitemoeshared", heads=HEADS)
def granitemoeshared(c: Config) -> Module:
    """Granite with a shared network (transformers' GraniteMoeSharedModel)."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"))
    return decoders.decoder(c, layer(c, mixer, *shared_mlp(c))).replace(scales=True)


@family("granitemoe_swa", heads=HEADS)
def granitemoe_swa(c: Config) -> Module:
    """Granite with sliding windows (transformers' GraniteMoeSWAModel): every head has a sink, in full attention too."""
    one = layer(
        c, decoders.attention(c, bias=c.flag("attention_bias")).replace(sinks=decoders.sinks(c)), *shared_mlp(c)
    )
    layers = decoders.with_windows(one, windows(c, lambda place: place % 4 > 0))
    return decoders.decoder(c, layers, masks=full_and_sliding(c)).replace(scales=True)
