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
    vocab_size=30522,
    block_sizes=[4, 4, 4],
    block_repeats=None,
    num_decoder_layers=2,
    hidden_size=768,
    num_attention_heads=12,
    d_head=64,
    d_inner=3072,
    hidden_act="gelu_new",
    tie_word_embeddings=True,
)
def funnel(c: Config, run: Workload) -> Component:
    """Dai et al. 2020 (arXiv 2006.03236): no tables of positions; a decoder makes the sequence long again."""
    encoder = Component("encoder", "encoder", parts=tuple(blocks(c, run)))
    decoder = [lengthening(c, run)] if c.head not in SHORT else []
    return Component("funnel", "encoder", parts=(embeddings(c, run, normed="layer_norm"), encoder, *decoder))


def lengthening(c: Config, run: Workload) -> Component:
    """Layers on the long sequence: what the blocks made, repeated, and what the first of them gave."""
    made = funnel_layer("layers", run.target, run.target, c, run)
    return Component("decoder", "decoder", parts=(made._replace(copies=c.size("num_decoder_layers", least=0)),))


def blocks(c: Config, run: Workload) -> Iterator[Component]:
    """Blocks of ``block_sizes`` layers, each run ``block_repeats`` times; its first layer shortens the sequence."""
    sizes = c.numbers("block_sizes", least=1)
    repeats = c.numbers("block_repeats", len(sizes), least=1) if c.has("block_repeats") else [1] * len(sizes)
    stream = run.target
    for place, (size, times) in enumerate(zip(sizes, repeats, strict=True)):
        before, stream = stream, run.target._replace(length=ceil_div(run.target.length, 2**place))
        first = funnel_layer("(first)", stream, before, c, run)._replace(passes=times)
        others = funnel_layer("(others)", stream, stream, c, run)._replace(copies=size - 1, passes=times)
        yield Component(f"blocks[{place}]", "block", parts=(first, *([others] if size > 1 else [])))


def funnel_layer(name: str, stream: Sequences, seen: Sequences, c: Config, run: Workload) -> Component:
    """Attention from one sequence to another, and a feed-forward network."""
    h = c.size("hidden_size")
    mixer = FunnelAttention(h, c.size("num_attention_heads"), c.size("d_head"))
    block = FeedForward(h, c.size("d_inner"), c.word("hidden_act"), bias=True, names=("linear_1", "linear_2"))
    ffn = block("ffn", stream, run)
    last = norm("layer_norm", "layernorm", h, stream.tokens)
    parts = (mixer("attention", stream, seen, run), ffn._replace(parts=(*ffn.parts, last)))
    return layer(name, parts, stream.tokens * h)
