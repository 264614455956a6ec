"""Qwen3-Next and Qwen3.5: gated delta networks in three layers of four, gated attention in the fourth."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mixture import Mixture
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import mul, pointwise
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.experts import of_topk, sparse_steps, with_shared
from tfcalc.zoo.blocks.gemma import CODE
from tfcalc.zoo.blocks.layers import LAYERS
from tfcalc.zoo.blocks.state_space import FULL, LINEAR, GatedDeltaNet, JointDeltaNet, ShortConvolution, mixer_types


class GatedAttention(Attention):
    """Queries are mapped together with a gate of the same width, head by head; its sigmoid multiplies the output.

    Source: Qiu et al. 2025 (arXiv 2505.06708); transformers' Qwen3NextAttention, Qwen3_5Attention.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the gated attention output for ``x``, of b × l × h."""
        a, g, d, rows = self.heads, self.kv_heads, self.key_dim, x.shape[:2]
        q, gate = split(reshape(self.inward[0](x), *rows, a, 2 * d), [d, d])
        gate = reshape(gate, *rows, a * d)
        k, v = (each(x) for each in self.inward[1:])
        q, k = self.norm_heads(q, 0, a, ctx), self.norm_heads(k, 1, g, ctx)
        v = reshape(v, *rows, g, self.value_dim)
        made = self.mixed([transpose(each, 1, 2) for each in (q, k, v)], ctx)
        return self.output(mul(made, pointwise("sigmoid", gate)))


def three_to_one(c: Config) -> list[str]:
    """Full attention in every ``full_attention_interval``-th layer, unless ``layer_types`` says otherwise."""
    return mixer_types(c, lambda place: LINEAR if (place + 1) % c.number("full_attention_interval") else FULL)


def delta_decoder(
    c: Config,
    linear: Callable[[Config], Module],
    attention: Callable[[Config], Attention],
    mixed: Callable[[], Mixture],
    sparse: list[bool],
) -> Module:
    """Layers of both kinds, each with experts or without."""

    def one(kind: tuple[str, bool]) -> PreNorm:
        mixer = linear(c) if kind[0] == LINEAR else attention(c)
        return decoders.layer(c, mixer, mixed() if kind[1] else decoders.gated(c), code=CODE)

    return decoders.decoder(c, one, list(zip(three_to_one(c), sparse, strict=True)), code=CODE, masks=(None,))


@family(
    "qwen3_next",
    # by __post_init__, for older configs:
    full_attention_interval=4,
    partial_rotary_factor=0.25,
)
def qwen3_next(c: Config) -> Module:
    """Qwen3-Next (Qwen team, 2025): experts in every ``decoder_sparse_step``-th layer but ``mlp_only_layers``."""
    mixed = lambda: with_shared(c, of_topk(c))  # noqa: E731  # too short for a function
    return delta_decoder(c, joint_delta_net, gated_attention, mixed, sparse_steps(c))


@family(
    "qwen3_5_text",
    heads=tops.CAUSAL_LM | {"TextModel": tops.bare},
    # by __post_init__, for older configs:
    full_attention_interval=4,
    partial_rotary_factor=0.25,
)
def qwen3_5_text(c: Config) -> Module:
    """The text model of Qwen3.5 (Qwen team, 2026): Qwen3-Next without experts, four projections instead of two."""
    return delta_decoder(c, split_delta_net, attention_by_sequence, lambda: summing_to_1(c), [False] * c.number(LAYERS))


@family(
    "qwen3_5_moe_text",
    heads=tops.CAUSAL_LM | {"TextModel": tops.bare},
    # by __post_init__:
    full_attention_interval=4,
    partial_rotary_factor=0.25,
)
def qwen3_5_moe_text(c: Config) -> Module:
    """The text model of Qwen3.5 with experts in every layer."""
    return delta_decoder(c, split_delta_net, attention_by_sequence, lambda: summing_to_1(c), [True] * c.number(LAYERS))


def summing_to_1(c: Config) -> Mixture:
    """Experts whose weights always add up to 1, and one for all tokens behind a gate of its own."""
    return with_shared(c, of_topk(c, normalized=True))


def split_delta_net(c: Config) -> GatedDeltaNet:
    """The linear attention of most layers, with a map each of what is mixed, of the gate, of strengths and decays."""
    h, keys, values = c.size("hidden_size"), c.size("linear_num_key_heads"), c.size("linear_num_value_heads")
    key, value = c.size("linear_key_head_dim"), c.size("linear_value_head_dim")
    mixed = 2 * keys * key + values * value
    return GatedDeltaNet(
        "linear_attn",
        (Linear("in_proj_qkv", h, mixed),),
        Linear("in_proj_z", h, values * value),
        (Linear("in_proj_b", h, values), Linear("in_proj_a", h, values)),
        ShortConvolution("conv1d", mixed, c.size("linear_conv_kernel_dim"), bias=False),
        c.word("hidden_act"),
        parameter("dt_bias", values, minor=True),
        parameter("A_log", values, minor=True),
        Norm("norm", "rmsnorm", value),
        Linear("out_proj", values * value, h, "O"),
        keys,
        values,
        key,
        value,
    )


def joint_delta_net(c: Config) -> JointDeltaNet:
    """Linear attention of most layers, with a map of what is mixed and of the gate, and one of strengths and decays."""
    h, parts = c.size("hidden_size"), split_delta_net(c)
    values = parts.output.fan_in
    mixed = Linear("in_proj_qkvz", h, parts.mixed[0].fan_out + values), Linear("in_proj_ba", h, 2 * parts.value_heads)
    return parts.as_type(JointDeltaNet, mixed=mixed, gate=None, strengths=())


def gated_attention(c: Config) -> GatedAttention:
    """The attention of the others: the map of queries makes the gate, too."""
    made = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", code=CODE)
    q, *others = made.inward
    wide = q.replace(fan_out=2 * q.fan_out)
    return made.as_type(GatedAttention, inward=(wide, *others), rope=decoders.rope(c, copies=True))


def attention_by_sequence(c: Config) -> GatedAttention:
    """Gated attention whose positions may differ from sequence to sequence."""
    return gated_attention(c).replace(rope=decoders.rope(c, by_sequence=True))
