"""X-MOD: RoBERTa with a small network in each layer for each language."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.component import Component
from tfcalc.core.number import floor_div
from tfcalc.families.bert import (
    FIRST_TOKEN,
    attention,
    cross_attention,
    embeddings,
    layers,
    pooler,
    stacked,
    with_tables,
)
from tfcalc.families.bert_heads import ROBERTA_HEADS
from tfcalc.leaves import norm
from tfcalc.workload import Workload


def adapters(c: Config, run: Workload) -> Iterator[Component]:
    """One for each of ``languages``, of which a text goes through its own."""
    h, listed = c.size("hidden_size"), c.get("languages")
    languages = c.words("languages", len(listed) if isinstance(listed, list | tuple) else 1)
    narrow = floor_div(h, c.number("adapter_reduction_factor"))
    block = FeedForward(h, narrow, c.word("hidden_act"), bias=True, names=("dense1", "dense2"))
    if c.flag("adapter_layer_norm"):
        yield norm("output.adapter_layer_norm", "layernorm", h, run.target.tokens)
    for place, language in enumerate(dict.fromkeys(languages)):
        made = block(f"output.adapter_modules.{language}", run.target, run)
        yield made._replace(kind="adapter", active=0 if place else 1)


@family("xmod", architecture="XmodForCausalLM", heads=ROBERTA_HEADS)
def xmod(c: Config, run: Workload) -> Component:
    """Pfeiffer et al. 2022 (arXiv 2205.06266): with ``pre_norm``, a norm after the last layer too."""
    h, tokens, cross = c.size("hidden_size"), run.target.tokens, cross_attention(c, run)
    stack = layers(c, run, attention(c, run), cross=cross, more=tuple(adapters(c, run)))
    last = (norm("LayerNorm", "layernorm", h, tokens),) if c.flag("pre_norm") else ()
    parts = (embeddings(c, run, *with_tables(c, run)), stacked(stack, *last), *pooler(c, run, FIRST_TOKEN))
    return Component("roberta", "encoder", parts=parts)
