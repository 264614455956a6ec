"""Moonshine: raw sound through three convolutions, and a decoder with a gate."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare, lm_head
from tfcalc.nn.attention import Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Norm
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import PRE_NORM
from tfcalc.zoo.blocks.layers import LLAMA_NAMES, gated, multi_head, network, stack
from tfcalc.zoo.blocks.sound import Convolution, GroupNorm, SoundEncoder, Transcriber, WaveStem

UNBIASED = "layernorm-no-bias"
STRIDES = (64, 3, 2)


@family(
    "moonshine",
    heads={"Model": bare, "ForConditionalGeneration": lm_head("proj_out", shifted=False)},
    aliases={
        "num_key_value_heads": "decoder_num_key_value_heads",
        "num_attention_heads": "decoder_num_attention_heads",
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
    ffn = network("mlp", ("fc1", "fc2"), h, c.size("intermediate_size"), c.word("encoder_hidden_act"))
    layers = _stack(c, "encoder", (_attention(c, causal=False), ffn), PRE_NORM)
    return SoundEncoder("encoder", stem, None, layers, Norm("layer_norm", UNBIASED, h))


def _decoder(c: Config) -> Decoder:
    h = c.size("hidden_size")
    sublayers = (
        _attention(c, causal=True),
        _attention(c, "encoder_attn", CrossAttention, causal=False),
        gated("mlp", ("fc1", "fc2"), h, c.size("intermediate_size"), c.word("decoder_hidden_act"), bias=True),
    )
    layers = _stack(c, "decoder", sublayers, (*PRE_NORM, "final_layernorm"))
    return Decoder("decoder", Embedding("embed_tokens", c.size("vocab_size"), h), layers, Norm("norm", UNBIASED, h))


def _stack(c: Config, side: str, sublayers: tuple[Module, ...], names: tuple[str, ...]) -> Stack:
    norms = tuple(Norm(name, UNBIASED, c.size("hidden_size")) for name in names)
    return stack(c, PreNorm("layers", sublayers, norms), f"{side}_num_hidden_layers")


def _attention(c: Config, name: str = "self_attn", of: type[Attention] = Attention, *, causal: bool) -> Attention:
    """The decoder is built with the encoder's heads, whatever its own fields say (transformers' MoonshineAttention)."""
    field = "encoder_num_attention_heads"
    h, a = c.size("hidden_size"), c.size(field)
    d = c.quotient("hidden_size", field) if c.get("head_dim") is None else c.size("head_dim")
    g = c.size("encoder_num_key_value_heads") if c.has("encoder_num_key_value_heads") else a
    bias, drops = c.flag("attention_bias"), bool(c.get("attention_dropout"))
    rope = decoders.rope(c, d, by_layer=True, copies=True) if of is Attention else None
    made = multi_head(of, name, LLAMA_NAMES, h, a, d, groups=g, bias=bias, output_bias=False)
    return made.replace(rope=rope, causal=causal, dropout=drops)
