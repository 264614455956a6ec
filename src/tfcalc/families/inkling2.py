"""Inkling 2's text: windows and full attention, both with learned distances, short convolutions and gates."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FUSED, LLAMA_NAMES, Attention, FeedForward, layer, stack
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.keeping import CONVOLUTION, FP32, by_sequence, keeping
from tfcalc.blocks.recurrence import convolved
from tfcalc.blocks.residual_attention import ResidualAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.families.deepseek import active
from tfcalc.families.hybrid import never_tied
from tfcalc.families.llama import decoder
from tfcalc.leaves import activation, buffer, linear, norm, parameter
from tfcalc.leaves.scan import gated_sum
from tfcalc.workload import Workload

WINDOW, FULL = "hybrid_sliding", "hybrid"


def near(name: str, full: bool, groups: Num, width: Num, c: Config, run: Workload) -> Iterator[Component]:
    """A short convolution of keys or values; where attention sees everything, its weights depend on the token too."""
    kernel, t = c.size("conv_kernel_size"), run.target.tokens
    if not full:
        yield convolved(f"{name}.conv1d", groups * width, kernel, run.target, bias=False, bits=FP32)
        return
    yield linear(f"{name}.weight_proj", c.size("hidden_size"), groups * kernel, t, bias=False)
    yield parameter(f"{name}.static", kernel, groups * width)
    summed = gated_sum(f"{name}.sum", "Σ (w + w(x))·x", t * groups * width * kernel)
    yield keeping(summed, *by_sequence(run.target, CONVOLUTION, groups * width, kernel, FP32))


def attention(kind: str, c: Config, run: Workload) -> Component:
    """Each head mixes profiles of bias over distance; a gate of the output, and a sink that depends on the token."""
    full, prefix = kind == FULL, "" if kind == FULL else "swa_"
    c.quotient(f"{prefix}num_attention_heads", f"{prefix}num_key_value_heads")  # heads share keys evenly
    a, g = c.size(f"{prefix}num_attention_heads"), c.size(f"{prefix}num_key_value_heads")
    h, d, rel, t = c.size("hidden_size"), c.size(f"{prefix}head_dim"), c.size("d_rel"), run.target.tokens
    extent = c.size("rel_extent" if full else "sliding_window_size")
    within = (
        *(part for name in ("k_sconv", "v_sconv") for part in near(name, full, g, d, c, run)),
        linear("r_proj", h, a * rel, t, bias=False),
        linear("rel_logits_proj.proj", rel, extent, t * a, bias=False),
        linear("sink_proj", h, a, t, bias=False),
        linear("gate_proj", h, a * d, t, bias=False),
        activation("gate", "sigmoid", t * a * d),
        parameter("q_l2_clip.scale", a, d, minor=True),
        parameter("rel_l2_clip.scale", a, rel, minor=True),
    )
    window = None if full else c.size("sliding_window_size")
    block = Attention(h, a, g, d, d, names=LLAMA_NAMES, within=within, window=window)
    return block("self_attn", run.target, run.target, run, causal=True)


def experts(c: Config, run: Workload) -> Component:
    """Routed experts, none shared."""
    h, stored = c.size("hidden_size"), c.size("n_routed_experts")
    expert = FeedForward(h, c.size("moe_intermediate_size"), c.word("hidden_act"), names=FUSED, gated=True)
    correction = buffer("gate.e_score_correction_bias", stored)
    return MixtureOfExperts(h, stored, active(c), expert, within=(correction,))("mlp", run.target, run)


def layer_types(c: Config) -> list[str]:
    """Given, or full attention in every sixth layer."""
    count = c.number("num_hidden_layers")
    if c.has("layer_types"):
        return c.words("layer_types", count, (WINDOW, FULL))
    return [FULL if (place + 1) % 6 == 0 else WINDOW for place in range(count)]


@family(
    "inkling2_text",
    architecture="Inkling2ForCausalLM",
    heads=CAUSAL_LM | {"ForCausalLM": never_tied},
    aliases={
        "sliding_window": "sliding_window_size",
        "num_local_experts": "n_routed_experts",
        "sconv_kernel_size": "conv_kernel_size",
        "model_max_length": "max_position_embeddings",
        "intermediate_size": "moe_intermediate_size",
    },
)
def inkling2_text(c: Config, run: Workload) -> Component:
    """Its layers read the stream through a query over blocks of layers before them; full ones with three queries."""
    h, t, kernel = c.size("hidden_size"), run.target.tokens, c.size("conv_kernel_size")
    read = ResidualAttention(h)

    def make(kind: tuple[str, int, int]) -> Component:
        mixer, before, within = kind
        inputs = [f"{letter}_input_layernorm" for letter in "qkv"] if mixer == FULL else ["input_layernorm"]
        parts = (
            *([read("attention_input", before, run.target, queries=len(inputs))] if before else []),
            attention(mixer, c, run),
            convolved("post_attention_convolution.conv1d", h, kernel, run.target, bias=False, bits=FP32),
            read("mlp_input", within, run.target),
            experts(c, run),
            convolved("post_mlp_convolution.conv1d", h, kernel, run.target, bias=False, bits=FP32),
            *(norm(name, "rmsnorm", h, t) for name in (*inputs, "post_attention_layernorm")),
        )
        return layer("layers", parts, t * h, ends_with_sum=True)

    before, within = blocks(c)
    count = c.number("num_hidden_layers")
    kinds = list(zip(layer_types(c), before, within, strict=True))
    base = decoder(c, run, *stack("layers", kinds, c.size("num_hidden_layers"), make))
    last = read("final_input", ceil_div(count, c.number("n_layers_per_attn_res_block")) + 1, run.target)
    return base._replace(parts=(*base.parts, norm("embed_tokens.embed_norm", "rmsnorm", h, t), last))


def blocks(c: Config) -> tuple[list[int], list[int]]:
    """How many vectors each layer reads, its own block's sum among them: before attention, and before its experts.

    A block's first layer closes the block before it; the first layer of all reads the stream itself.
    """
    every, places = c.number("n_layers_per_attn_res_block"), range(c.number("num_hidden_layers"))
    return [ceil_div(place, every) + 1 if place else 0 for place in places], [place // every + 2 for place in places]
