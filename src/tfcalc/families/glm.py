"""GLM-4: Llama with fused gate and input, and biases on queries, keys and values."""

from __future__ import annotations

from tfcalc.blocks import FUSED
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.llama import PRE_NORM, attention, decoder, gated, uniform
from tfcalc.workload import Workload


@family("glm", architecture="GlmForCausalLM", heads=CAUSAL_LM, partial_rotary_factor=0.5)  # by __post_init__
def glm(c: Config, run: Workload) -> Component:
    """ChatGLM (arXiv 2406.12793): no bias on the output, whatever the flag says."""
    return decoder(c, run, uniform(c, run, *fused(c, run)))


@family("glm4", architecture="Glm4ForCausalLM", heads=CAUSAL_LM, partial_rotary_factor=0.5)  # by __post_init__
def glm4(c: Config, run: Workload) -> Component:
    """GLM-4-0414 (transformers' Glm4DecoderLayer): a norm after each sub-layer too."""
    names = (*PRE_NORM, "post_self_attn_layernorm", "post_mlp_layernorm")
    return decoder(c, run, uniform(c, run, *fused(c, run), names=names, ends_with_sum=False))


def fused(c: Config, run: Workload) -> tuple[Component, Component]:
    """Their attention and feed-forward network."""
    mixer = attention(c, run, bias=c.flag("attention_bias"), output_bias=False)
    return mixer, gated(c, run, names=FUSED)
