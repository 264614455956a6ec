"""The Hierarchical Reasoning Model for text: two stacks of layers that are run through again and again."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import LLAMA_NAMES, Attention, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import minimum, total
from tfcalc.families.llama import PRE_NORM, gated, norms
from tfcalc.families.unread import unread
from tfcalc.leaves import embedding, linear, parameter
from tfcalc.workload import Workload


def module(c: Config, run: Workload) -> Component:
    """Llama's layers with gated attention, and norms without weights."""
    h, a, d, tokens = c.size("hidden_size"), c.size("num_attention_heads"), c.size("head_dim"), run.target.tokens
    bias = c.flag("attention_bias")
    gate = linear("gate_proj", h, a * d, tokens, bias=bias, letter="gate")
    block = Attention(h, a, a, d, d, bias=bias, names=LLAMA_NAMES, within=(gate,), rotary=d)
    mixer = block("self_attn", run.target, run.target, run, causal=True)
    mlp = gated(c, run, bias=c.flag("mlp_bias"))
    copies = c.size("num_layers_per_stack" if c.has("num_layers_per_stack") else "num_hidden_layers")
    parts = mixer, mlp, *norms(PRE_NORM, "rmsnorm-plain", c, run)
    layers = layer("layers", parts, tokens * h, copies=copies, ends_with_sum=True)
    return Component("module", "decoder", parts=(layers, *norms(("final_norm",), "rmsnorm-plain", c, run)))


def fast_stack(c: Config, run: Workload, stack: Component) -> Iterator[Component]:
    """The stack that runs L_cycles times in each slow cycle; of these only the last have a gradient.

    ``L_bp_cycles`` says how many, cycle by cycle ([2] if left out); it is filled up with ones from the front.
    """
    slow, fast = c.size("H_cycles"), c.size("L_cycles")
    if not run.training:
        yield stack._replace(passes=slow * fast)
        return
    given = ([2] if c.get("L_bp_cycles") is None else c.numbers("L_bp_cycles"))[: c.number("H_cycles")]
    trained = slow - len(given) + total(minimum(fast, count) for count in given)
    yield stack._replace(passes=trained)
    yield unread(stack)._replace(name="L_module[no gradient]", copies=0, active=1, passes=slow * fast - trained)


@family("hrm_text", architecture="HrmTextForCausalLM", heads={"Model": bare, "ForCausalLM": lm_head()})
def hrm_text(c: Config, run: Workload) -> Component:
    """Wang et al. 2025 (arXiv 2506.21734): the slow stack runs ``H_cycles`` times, the fast one L_cycles as often.

    A saved config has the number of layers that run in ``num_hidden_layers``, and those that are stored beside it.
    """
    h, slow, stack = c.size("hidden_size"), c.size("H_cycles"), module(c, run)
    return Component(
        "model",
        "decoder",
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, run.target.tokens),
            parameter("z_L_init", h, minor=True, frozen=True),
            *fast_stack(c, run, stack._replace(name="L_module")),
            stack._replace(name="H_module", passes=slow),
        ),
    )
