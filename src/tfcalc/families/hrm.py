"""The Hierarchical Reasoning Model for text: two stacks of layers that are run through again and again."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.families import kit
from tfcalc.families.layers import stack
from tfcalc.nn.basic import Embedding, Linear, Norm, Stored
from tfcalc.nn.cycles import Cycles, Turns
from tfcalc.nn.module import Module

CODE = "gemma"
"""Whose program a norm is: all in fp32, then in the first format."""


def layer(c: Config) -> Module:
    """Llama's with gated attention, and norms without weights."""
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim"), c.flag("attention_bias")
    gate = Linear("gate_proj", h, a * d, "gate", bias)
    mixer = kit.attention(c, bias=bias).but(gate=gate, kv_heads=a)
    return kit.layer(c, mixer, kit.gated(c, bias=c.flag("mlp_bias")), norm="rmsnorm-plain", code=CODE)


def trained(c: Config) -> tuple[Num, ...]:
    """How many fast turns of the last slow ones have a gradient: two of the last, unless ``L_bp_cycles`` says more."""
    given: list[Num] = [2] if c.get("L_bp_cycles") is None else [*c.numbers("L_bp_cycles")]
    return tuple(given[: c.number("H_cycles")])


@family("hrm_text", heads={"Model": tops.bare, "ForCausalLM": tops.lm_head()})
def hrm_text(c: Config) -> Module:
    """Wang et al. 2025 (arXiv 2506.21734): the slow stack runs ``H_cycles`` times, the fast one L_cycles as often.

    A saved config has the number of layers that run in ``num_hidden_layers``, and those that are stored beside it.
    """
    h, slow, fast = c.size("hidden_size"), c.size("H_cycles"), c.size("L_cycles")
    stored = "num_layers_per_stack" if c.has("num_layers_per_stack") else "num_hidden_layers"
    layers = stack(c, layer(c), stored)
    norm = Norm("final_norm", "rmsnorm-plain", h, CODE)
    return Cycles(
        "model",
        Embedding("embed_tokens", c.size("vocab_size"), h),
        Stored("z_L_init", Weight("z_L_init", (h,), minor=True, key="", frozen=True)),
        Turns("L_module", layers, norm, slow * fast),
        Turns("H_module", layers, norm, slow),
        slow,
        fast,
        trained(c),
    )
