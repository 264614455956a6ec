"""Mixtures of experts with a gate on attention's output and four norms a layer."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM
from tfcalc.core.component import Component
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.glm_moe import dense_or_sparse, routed
from tfcalc.families.llama import PRE_NORM, SANDWICH, attention, head_dim, qk_norms
from tfcalc.families.mixtral import mixture, shared, swiglu
from tfcalc.families.windows import windows
from tfcalc.leaves import activation, linear, parameter
from tfcalc.workload import Workload


def output_gate(c: Config, run: Workload) -> tuple[Component, ...]:
    """What multiplies the heads' values, of the attention's input."""
    width, tokens = c.size("num_attention_heads") * head_dim(c), run.target.tokens
    gate = linear("gate_proj", c.size("hidden_size"), width, tokens, bias=False, letter="gate")
    return gate, activation("gate", "sigmoid", width * tokens)


@family("beam", architecture="BeamForCausalLM", heads=CAUSAL_LM)
def beam(c: Config, run: Workload) -> Component:
    """Beam (transformers' BeamModel): a gate on attention's output with one bias a head, four norms a layer.

    Every sixth layer and the last see everything.
    """
    bias = parameter("gate_bias", c.size("num_attention_heads"), minor=True)
    within = (*qk_norms("rmsnorm", c, run), *output_gate(c, run), bias)
    kinds, last = mlp_types(c, sparse_after(c, 3)), c.number("num_hidden_layers") - 1
    seen = windows(c, lambda place: (place + 1) % 6 > 0 and place != last)

    def mixer(window: int | None) -> Component:
        return attention(c, run, bias=c.flag("attention_bias"), within=within, window=window)

    return dense_or_sparse(c, run, kinds, mixer, lambda: routed(c, run, "num_experts"), names=SANDWICH, seen=seen)


@family("afmoe", architecture="AfmoeForCausalLM", heads=CAUSAL_LM)
def afmoe(c: Config, run: Workload) -> Component:
    """Arcee's Trinity (transformers' AfmoeModel): gated attention, four norms; the correction is a frozen parameter."""

    def experts() -> Component:
        beside = swiglu("shared_experts", shared(c, "num_shared_experts"), c, run)
        within = beside, parameter("expert_bias", c.size("num_experts"), minor=True, frozen=True)
        width = "moe_intermediate_size"
        return mixture(c, run, experts="num_experts", width=width, router="router.gate", within=within)

    within = (*qk_norms("rmsnorm", c, run), *output_gate(c, run))
    names = (*PRE_NORM, "pre_mlp_layernorm", "post_mlp_layernorm")
    kinds = sparse_after(c, c.number("num_dense_layers", least=0))
    seen = windows(c, lambda place: (place + 1) % c.number("global_attn_every_n_layers") > 0)

    def mixer(window: int | None) -> Component:
        return attention(c, run, bias=c.flag("attention_bias"), within=within, window=window)

    slide = [window is not None for window in seen]  # only these know positions
    return dense_or_sparse(c, run, kinds, mixer, experts, names=names, seen=seen, rotated=slide)
