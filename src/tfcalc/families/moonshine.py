"""Moonshine: raw sound through three convolutions, and a decoder with a gate."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare, lm_head
from tfcalc.core.number import Num
from tfcalc.families import kit
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.encoder_decoder import Transcriber
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.frames import Convolution, GroupNorm, SoundEncoder, WaveStem
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack

UNBIASED = "layernorm-no-bias"
STRIDES = (64, 3, 2)


@family(
    "moonshine",
    architecture="MoonshineForConditionalGeneration",
    heads={"Model": bare, "ForConditionalGeneration": lm_head("proj_out", shifted=False)},
    aliases={
        "num_key_value_heads": "decoder_num_key_value_heads",
        "num_attention_heads": "decoder_num_attention_heads",
        "num_hidden_layers": "decoder_num_hidden_layers",
        "hidden_act": "decoder_hidden_act",
    },
    partial_rotary_factor=0.9,  # by __post_init__
)
def moonshine(c: Config) -> Module:
    """Jeffries et al. 2024 (arXiv 2410.15608)."""
    return Transcriber("model", None, _encoder(c), _decoder(c))


def _encoder(c: Config) -> SoundEncoder:
    h = c.size("hidden_size")
    stem = WaveStem(
        "",
        Convolution("conv1", 1, h, (127,), bias=False, activation="tanh"),
        GroupNorm("groupnorm", "layernorm", h),
        Convolution("conv2", h, 2 * h, (7,), activation="gelu"),
        Convolution("conv3", 2 * h, h, (3,), activation="gelu"),
        STRIDES,
    )
    up, down = _maps(c)
    subs = _attention(c, causal=False), FeedForward("mlp", up, down, c.word("encoder_hidden_act"))
    layers = _stack(c, "encoder", subs, ("input_layernorm", "post_attention_layernorm"))
    return SoundEncoder("encoder", stem, None, layers, Norm("layer_norm", UNBIASED, h))


def _decoder(c: Config) -> Decoder:
    h = c.size("hidden_size")
    up, down = _maps(c, gates=2)
    subs = (
        _attention(c, causal=True),
        _attention(c, "encoder_attn", CrossAttention, causal=False, rope=None),
        GatedFeedForward("mlp", None, up, down, c.word("decoder_hidden_act")),
    )
    names = ("input_layernorm", "post_attention_layernorm", "final_layernorm")
    layers = _stack(c, "decoder", subs, names)
    return Decoder("decoder", Embedding("embed_tokens", c.size("vocab_size"), h), layers, Norm("norm", UNBIASED, h))


def _maps(c: Config, gates: Num = 1) -> tuple[Linear, Linear]:
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    return Linear("fc1", h, gates * f, "1", True), Linear("fc2", f, h, "2", True)


def _stack(c: Config, side: str, subs: tuple[Module, ...], names: tuple[str, ...]) -> Stack:
    norms = tuple(Norm(name, UNBIASED, c.size("hidden_size")) for name in names)
    depth = f"{side}_num_hidden_layers"
    return Stack("layers", (PreNorm("layers", subs, norms),) * c.number(depth), c.size(depth))


def _attention(c: Config, name: str = "self_attn", of: type[Attention] = Attention, **more: Any) -> Attention:
    """The decoder is built with the encoder's heads, whatever its own fields say (transformers' MoonshineAttention)."""
    field = "encoder_num_attention_heads"
    h, a = c.size("hidden_size"), c.size(field)
    d = c.quotient("hidden_size", field) if c.get("head_dim") is None else c.size("head_dim")
    g = c.size("encoder_num_key_value_heads") if c.has("encoder_num_key_value_heads") else a
    bias = c.flag("attention_bias")
    maps = tuple(
        Linear(f"{letter.lower()}_proj", h, heads * d, letter, bias)
        for letter, heads in zip("QKV", (a, g, g), strict=True)
    )
    drops = bool(c.get("attention_dropout"))
    how: dict[str, Any] = {"rope": kit.rope(c, d, by_layer=True, copies=True), "dropout": drops} | more
    return of(name, a, g, d, d, maps, (), Linear("o_proj", a * d, h, "O"), **how)
