"""Those whose attention and feed-forward network may read the same norm, one beside the other."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, qk_norms, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.workload import Workload

PARALLEL = ("input_layernorm",)


@family("cohere", architecture="CohereForCausalLM", heads=CAUSAL_LM)
def cohere(c: Config, run: Workload) -> Component:
    """Command R (transformers' CohereDecoderLayer): one LayerNorm a layer, without bias; a flag norms heads too."""
    kind = "layernorm-no-bias"
    within = qk_norms(kind, c, run, whole=True) if c.flag("use_qk_norm") else ()
    mixer = attention(c, run, bias=c.flag("attention_bias"), within=within)
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), norm=kind, names=PARALLEL), final=kind)


@family(
    "cohere2",
    architecture="Cohere2ForCausalLM",
    heads=CAUSAL_LM,
    sliding_window_pattern=4,  # by __post_init__, for older configs
)
def cohere2(c: Config, run: Workload) -> Component:
    """Command A (arXiv 2504.00698): no norms of heads, whatever the flag says; all layers but every fourth slide."""
    every, kind = c.number("sliding_window_pattern"), "layernorm-no-bias"

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=c.flag("attention_bias"), window=window)
        return uniform(c, run, mixer, gated(c, run), norm=kind, names=PARALLEL)

    return decoder(c, run, *by_window(c, run, windows(c, lambda place: (place + 1) % every != 0), one), final=kind)


@family("stablelm", architecture="StableLmForCausalLM", heads=CAUSAL_LM, partial_rotary_factor=0.25)  # by __post_init__
def stablelm(c: Config, run: Workload) -> Component:
    """StableLM 2 (arXiv 2402.17834): LayerNorms with biases, and one without for each head of queries and keys.

    A head is always as wide as the hidden size split among the heads: there is no field for it.
    """
    d = c.quotient("hidden_size", "num_attention_heads")
    each = ("q_layernorm.norms", "k_layernorm.norms")
    normed = qk_norms("layernorm-no-bias", c, run, whole=True, names=each, width=d) if c.flag("qk_layernorm") else ()
    mixer = attention(c, run, bias=c.flag("use_qkv_bias"), output_bias=False, within=normed, width=d)
    names = PARALLEL if c.flag("use_parallel_residual") else PRE_NORM
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), norm="layernorm", names=names), final="layernorm")
