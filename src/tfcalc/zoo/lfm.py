"""LFM2 and LFM3 of Liquid AI: short convolutions, and attention in some layers."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import Num, ceil_div, floor_div, scaled
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, buffer
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm, Sandwich
from tfcalc.nn.mixture import Mixture, RouterCode
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import contiguous, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.attention import GatedBehind
from tfcalc.zoo.blocks.experts import routed
from tfcalc.zoo.blocks.layers import gated
from tfcalc.zoo.blocks.state_space import FULL, ShortConvolution, first, mixer_types
from tfcalc.zoo.blocks.vision_tower import OUT_PROJ


class GatedConvolution(Module):
    """``W_out (C · conv(B · x))``: one matrix makes B, C and x, a depthwise convolution looks a few tokens back.

    Source: LFM2 technical report (arXiv 2511.23404), section 2; transformers' Lfm2ShortConv.
    """

    kind = "ssm"

    in_proj: Linear
    conv: ShortConvolution
    out_proj: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the mixer's output for the tokens of ``x``, of b × l × h."""
        trace = x.trace
        before, behind, inner = split(transpose(self.in_proj(x), 1, 2), [self.conv.channels] * 3, 1)
        gates = gated_sum("gates", "B·x, C·y", inner.elements)  # those on both sides of the convolution
        inner = recurrence(gates, inner, inner.shape, lambda: mul(before, inner))
        made = trace.to(self.conv(trace.to(inner, trace.weights_format), ctx), inner.dtype)
        return self.out_proj(contiguous(transpose(mul(behind, made), 1, 2)))


CONV, SLIDING = "conv", "sliding_attention"
KNOWN = (CONV, FULL, SLIDING)
NORMS = ("operator_norm", "ffn_norm")
SANDWICH = ("operator_norm", "post_operator_norm", "ffn_norm", "post_ffn_norm")
NAMES = ("model", "embed_tokens", "embedding_norm")
"""The final norm is called the embedding's."""
HEADS = {"Model": tops.bare, "ForCausalLM": tops.lm_head(ties=("tie_embedding", "tie_word_embeddings"))}


def convolution(c: Config) -> GatedConvolution:
    """The mixer of most layers."""
    h, bias = c.size("hidden_size"), c.flag("conv_bias")
    conv = ShortConvolution("conv", h, c.size("conv_L_cache"), bias=bias)
    maps = Linear("in_proj", h, 3 * h, "in", bias), Linear("out_proj", h, h, "out", bias)
    return GatedConvolution("conv", maps[0], conv, maps[1])


def network(c: Config, width: Num) -> GatedFeedForward:
    """SwiGLU by Liquid's names."""
    return gated("feed_forward", ("w1", "w3", "w2"), c.size("hidden_size"), width, "silu")


def adjusted(c: Config) -> Num:
    """Two thirds of ``intermediate_size``, times a factor, rounded up to a multiple; or the size itself."""
    width = c.size(first(c, "block_ff_dim", "intermediate_size"))
    if not c.flag("block_auto_adjust_ff_dim"):
        return width
    two_thirds: Num = floor_div(2 * width, 3)
    multiple = c.number("block_multiple_of")
    rounded: Num = multiple * ceil_div(scaled(two_thirds, c.factor("block_ffn_dim_multiplier")), multiple)
    return rounded


@family("lfm2", heads=HEADS)
def lfm2(c: Config) -> Module:
    """LFM2 (arXiv 2511.23404); without ``layer_types``, attention is where ``full_attn_idxs`` says, or everywhere."""
    given = None if c.get("full_attn_idxs") is None else c.numbers("full_attn_idxs")

    def one(kind: str) -> PreNorm:
        mixer = convolution(c) if kind == CONV else lfm2_attention(c)
        return decoders.layer(c, mixer, network(c, adjusted(c)), names=NORMS)

    kinds = mixer_types(c, lambda place: FULL if given is None or place in given else CONV, known=KNOWN)
    return decoders.decoder(c, one, kinds, names=NAMES, masks=(None,))


def lfm2_attention(c: Config) -> Attention:
    """LFM2's attention."""
    names, bias = ("q_layernorm", "k_layernorm"), c.flag("attention_bias")
    return decoders.attention(c, names=OUT_PROJ, bias=bias, qk_norms="rmsnorm", norm_names=names, dropout="")


@family("lfm2_moe", heads=HEADS)
def lfm2_moe(c: Config) -> Module:
    """LFM2 with experts in all but the first layers; the bias that balances them is stored, but not trained."""

    def one(kind: tuple[str, bool]) -> PreNorm:
        mixer = convolution(c) if kind[0] == CONV else lfm2_attention(c)
        return decoders.layer(
            c, mixer, network(c, c.size("intermediate_size")) if kind[1] else lfm2_experts(c), names=NORMS
        )

    dense = c.number("num_dense_layers", least=0)
    # transformers needs ``layer_types``; where they are missing, half of the layers attend
    words = mixer_types(c, lambda place: FULL if place % 2 else CONV, known=KNOWN)
    kinds = [(word, place < dense) for place, word in enumerate(words)]
    return decoders.decoder(c, one, kinds, names=NAMES, masks=(None,))


def lfm2_experts(c: Config) -> Mixture:
    """The experts of LFM2."""
    biased = c.flag("use_expert_bias")
    made = routed(
        c, "num_experts", name="feed_forward", act="silu", corrected=biased, code=RouterCode(in_place=False, logits="")
    )
    bias = buffer("expert_bias", c.size("num_experts"))
    return made.replace(stored=(bias,) if biased else ())


@family("lfm3", heads=HEADS)
def lfm3(c: Config) -> Module:
    """LFM3 (Liquid AI, 2026): a gate for each head, and norms after both halves of a layer."""
    of, names = (Sandwich, SANDWICH) if c.flag("use_sandwich_norm") else (PreNorm, NORMS)

    def one(kind: str) -> PreNorm:
        mixer = convolution(c) if kind == CONV else lfm3_attention(c, kind)
        return decoders.layer(c, mixer, network(c, c.size("intermediate_size")), of=of, names=names)

    return decoders.decoder(c, one, mixer_types(c, lfm3_pattern, known=KNOWN), names=NAMES)


def lfm3_attention(c: Config, kind: str) -> Attention:
    """Attention with norms of queries and keys, and angles in fp32; a gate is a number for each head's output."""
    window = c.number("sliding_window") if kind == SLIDING else None
    made = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", window=window)
    made = made.replace(rope=decoders.rope(c, kind=kind, angles="float32", by_window=True))
    if not c.flag("use_attention_gate"):
        return made
    gate = Linear("g_proj", c.size("hidden_size"), made.heads, "g")
    return made.as_type(GatedBehind, gate=gate)


def lfm3_pattern(place: int) -> str:
    """Return a layer's kind: every second layer attends, in turn to all tokens and to a window; the first does not."""
    if place % 4 == 2:
        return FULL
    return SLIDING if place and place % 4 == 0 else CONV
