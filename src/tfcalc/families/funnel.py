"""Funnel Transformer: blocks of layers, each on a sequence half as long as the one before."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer
from tfcalc.blocks.funnel_attention import FunnelAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import ceil_div
from tfcalc.families.bert import embeddings
from tfcalc.families.bert_heads import TASKS, dense_classes, on_top
from tfcalc.leaves import norm
from tfcalc.workload import Sequences, Workload

CLASSIFIER = ("classifier.linear_hidden", "classifier.linear_out")
DISCRIMINATOR = ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction")
HEADS: dict[str, Head] = {
    **TASKS,
    "BaseModel": bare,
    "ForMaskedLM": lm_head(bias=True),
    "ForPreTraining": on_top(dense_classes(DISCRIMINATOR, 1, pooled=False)),
    "ForSequenceClassification": on_top(dense_classes(CLASSIFIER)),
    "ForMultipleChoice": on_top(dense_classes(CLASSIFIER, 1)),
}
SHORT = ("BaseModel", "ForSequenceClassification", "ForMultipleChoice")
"""The classes that need no vector for each token, and so have no decoder."""


@family(
    "funnel",
    architecture="FunnelForMaskedLM",
    heads=HEADS,
    aliases={"d_model": "hidden_size", "n_head": "num_attention_heads"},
)
def funnel(c: Config, run: Workload) -> Component:
    """Dai et al. 2020 (arXiv 2006.03236): no tables of positions; a decoder makes the sequence long again."""
    encoder = Component("encoder", "encoder", parts=tuple(blocks(c, run)))
    decoder = [lengthening(c, run)] if c.head not in SHORT else []
    return Component("funnel", "encoder", parts=(embeddings(c, run, normed="layer_norm"), encoder, *decoder))


def lengthening(c: Config, run: Workload) -> Component:
    """Layers on the long sequence: what the blocks made, repeated, and what the first of them gave."""
    made = funnel_layer("layers", run.target, c, run)
    return Component("decoder", "decoder", parts=(made._replace(copies=c.size("num_decoder_layers", least=0)),))


def blocks(c: Config, run: Workload) -> Iterator[Component]:
    """Blocks of ``block_sizes`` layers, each run ``block_repeats`` times; the very first run shortens the sequence."""
    sizes = c.numbers("block_sizes", least=1)
    repeats = c.numbers("block_repeats", len(sizes), least=1) if c.has("block_repeats") else [1] * len(sizes)
    stream, everything = run.target, c.flag("pool_q_only")
    for place, (size, times) in enumerate(zip(sizes, repeats, strict=True)):
        before, stream = stream, half(c, stream) if place else stream
        shortens = bool(place) and everything
        first = funnel_layer("(first)", stream, c, run, seen=before if everything else stream, shortens=shortens)
        again = funnel_layer("(again)", stream, c, run)._replace(copies=0, active=1, passes=times - 1)
        others = funnel_layer("(others)", stream, c, run)._replace(copies=size - 1, passes=times)
        more = [part for part in (again, others) if part.times.run]
        yield Component(f"blocks[{place}]", "block", parts=(first, *more))


def half(c: Config, stream: Sequences) -> Sequences:
    """Every two tokens as one; the first is kept apart, for which the last may be left out (``truncate_seq``)."""
    longer = c.flag("separate_cls") and not c.flag("truncate_seq")
    return stream._replace(length=ceil_div(stream.length + 1 if longer else stream.length, 2))


def funnel_layer(
    name: str, stream: Sequences, c: Config, run: Workload, *, seen: Sequences | None = None, shortens: bool = False
) -> Component:
    """Attention within a sequence, or to the longer one that it ``shortens``, and a feed-forward network."""
    h = c.size("hidden_size")
    factorized = c.word("attention_type", ("relative_shift", "factorized")) == "factorized"
    mixer = FunnelAttention(h, c.size("num_attention_heads"), c.size("d_head"), factorized)
    block = FeedForward(h, c.size("d_inner"), c.word("hidden_act"), bias=True, names=("linear_1", "linear_2"))
    ffn = block("ffn", stream, run)
    last = norm("layer_norm", "layernorm", h, stream.tokens)
    parts = (mixer("attention", stream, seen or stream, run, shortens=shortens), ffn._replace(parts=(*ffn.parts, last)))
    return layer(name, parts, stream.tokens * h)
