"""Qwen3-Next and Qwen3.5: gated delta networks in three layers of four, gated attention in the fourth."""

from __future__ import annotations

from tfcalc.blocks import FUSED, LLAMA_NAMES, Attention, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.gated_delta import FUSED as TWO_PROJECTIONS
from tfcalc.blocks.gated_delta import SPLIT as FOUR_PROJECTIONS
from tfcalc.blocks.gated_delta import GatedDeltaNet
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM, bare
from tfcalc.core.component import Component
from tfcalc.families import kit
from tfcalc.families.gemma import CODE
from tfcalc.families.hybrid import FULL, LINEAR, layer_types, swiglu
from tfcalc.families.llama import PRE_NORM, decoder, gated, head_dim, kv_heads, norms, qk_norms, rotary_width
from tfcalc.families.mixtral import chosen
from tfcalc.leaves import linear
from tfcalc.nn import delta as nn
from tfcalc.nn.basic import Linear, Norm, parameter
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.gated_attention import GatedAttention
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.workload import Workload


def delta_net(c: Config, run: Workload, names: tuple[str, ...]) -> Component:
    """The linear attention of most layers."""
    block = GatedDeltaNet(
        c.size("hidden_size"),
        c.size("linear_num_key_heads"),
        c.size("linear_num_value_heads"),
        c.size("linear_key_head_dim"),
        c.size("linear_value_head_dim"),
        c.size("linear_conv_kernel_dim"),
        c.word("hidden_act"),
        names,
    )
    return block("linear_attn", run.target)


def gated_attention(c: Config, run: Workload) -> Component:
    """Attention whose query projection is twice as wide, for a gate of the output; norms of queries and keys."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), head_dim(c)
    bias, within = c.flag("attention_bias"), qk_norms("rmsnorm", c, run)
    block = Attention(
        h, a, kv_heads(c), d, d, bias=bias, names=LLAMA_NAMES, gated=True, within=within, rotary=rotary_width(c, d)
    )
    return block("self_attn", run.target, run.target, run, causal=True)


def experts(c: Config, run: Workload) -> Component:
    """Experts, and one for all tokens behind a gate of its own."""
    h, stream = c.size("hidden_size"), run.target
    block = MixtureOfExperts(
        h,
        c.size("num_experts"),
        chosen(c, "num_experts"),
        swiglu(c, c.size("moe_intermediate_size"), FUSED),
        within=(
            swiglu(c, c.size("shared_expert_intermediate_size", least=0))("shared_expert", stream, run),
            linear("shared_expert_gate", h, 1, stream.tokens, bias=False),
        ),
    )
    return block("mlp", stream, run)


def three_to_one(c: Config) -> list[str]:
    """Full attention in every ``full_attention_interval``-th layer, unless ``layer_types`` says otherwise."""
    return layer_types(c, lambda place: LINEAR if (place + 1) % c.number("full_attention_interval") else FULL)


def delta_decoder(c: Config, run: Workload, sparse: list[bool], names: tuple[str, ...]) -> Component:
    """Layers of both kinds, each with experts or without."""
    stream = run.target

    def made(kind: tuple[str, bool]) -> Component:
        mixer = delta_net(c, run, names) if kind[0] == LINEAR else gated_attention(c, run)
        ffn = experts(c, run) if kind[1] else gated(c, run)
        parts = (mixer, ffn, *norms(PRE_NORM, "rmsnorm", c, run))
        # the shared expert's output is multiplied by its gate
        return layer("layers", parts, stream.tokens * c.size("hidden_size"), ends_with_sum=not kind[1])

    kinds = list(zip(three_to_one(c), sparse, strict=True))
    return decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), made))


@family(
    "qwen3_next",
    architecture="Qwen3NextForCausalLM",
    heads=CAUSAL_LM,
    full_attention_interval=4,  # by __post_init__, for older configs
)
def qwen3_next(c: Config, run: Workload) -> Component:
    """Qwen3-Next (Qwen team, 2025): experts in every ``decoder_sparse_step``-th layer but ``mlp_only_layers``."""
    step, some = c.number("decoder_sparse_step"), c.number("num_experts", least=0) > 0
    dense = c.numbers("mlp_only_layers") if c.get("mlp_only_layers") is not None else []
    places = range(c.number("num_hidden_layers"))
    sparse = [some and place not in dense and (place + 1) % step == 0 for place in places]
    return delta_decoder(c, run, sparse, TWO_PROJECTIONS)


TEXT_HEADS = CAUSAL_LM | {"TextModel": bare}


@family(
    "qwen3_5_text",
    architecture="Qwen3_5ForCausalLM",
    heads=tops.CAUSAL_LM | {"TextModel": tops.bare},
    # by __post_init__, for older configs:
    full_attention_interval=4,
    partial_rotary_factor=0.25,
)
def qwen3_5_text(c: Config) -> Module:
    """The text model of Qwen3.5 (Qwen team, 2026): Qwen3-Next without experts, four projections instead of two."""

    def one(kind: str) -> PreNorm:
        mixer = split_delta_net(c) if kind == LINEAR else attention_with_gate(c)
        return kit.layer(c, mixer, kit.gated(c), code=CODE)

    return kit.decoder(c, one, three_to_one(c), code=CODE, masks=(None,))


def split_delta_net(c: Config) -> Module:
    """The linear attention of most layers, with a map each of what is mixed, of the gate, of strengths and decays."""
    h, keys, values = c.size("hidden_size"), c.size("linear_num_key_heads"), c.size("linear_num_value_heads")
    key, value = c.size("linear_key_head_dim"), c.size("linear_value_head_dim")
    mixed = 2 * keys * key + values * value
    return nn.GatedDeltaNet(
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


def attention_with_gate(c: Config) -> Module:
    """The attention of the others: the map of queries makes the gate, too."""
    made = kit.attention(c, bias=c.flag("attention_bias"), qk_norms="rmsnorm", code=CODE)
    q, *others = made.inward
    wide = q.but(fan_out=2 * q.fan_out)
    rope = kit.rope(c, by_sequence=True)
    return GatedAttention(**made.__dict__ | {"inward": (wide, *others), "rope": rope})


@family(
    "qwen3_5_moe_text",
    architecture="Qwen3_5MoeForCausalLM",
    heads=TEXT_HEADS,
    # by __post_init__:
    full_attention_interval=4,
    partial_rotary_factor=0.25,
)
def qwen3_5_moe_text(c: Config, run: Workload) -> Component:
    """The text model of Qwen3.5 with experts in every layer."""
    return delta_decoder(c, run, [True] * c.number("num_hidden_layers"), FOUR_PROJECTIONS)
