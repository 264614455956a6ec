"""BERTs whose words' vectors have a width of their own: ALBERT, ELECTRA, ConvBERT, RemBERT, RoFormer."""

from __future__ import annotations

from tfcalc.blocks import stack
from tfcalc.core.component import Component
from tfcalc.families.bert import (
    BERT,
    PAIRED,
    attention,
    cross_attention,
    embeddings,
    feed_forward,
    layers,
    pooler,
    positions,
    stacked,
    token_types,
)
from tfcalc.families.bert_heads import TASKS, apart, classes, dense_classes, lm, on_top, predictions
from tfcalc.families.config import Config
from tfcalc.families.family import Head, family
from tfcalc.leaves import linear
from tfcalc.workload import Workload

ALBERT_PREDICTIONS = predictions("predictions", ("dense", "LayerNorm", "decoder"), width="embedding_size")
ALBERT_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(ALBERT_PREDICTIONS),
    "ForPreTraining": on_top(ALBERT_PREDICTIONS, classes("sop_classifier.classifier", pooled=True)),
}
GENERATOR = apart(
    ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
    width="embedding_size",
    act="gelu",
)
DISCRIMINATOR = dense_classes(
    ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction"), 1, pooled=False
)


def summary(c: Config, run: Workload) -> tuple[Component, ...]:
    """A map of the first token's vector (``summary_use_proj``)."""
    h = c.size("hidden_size")
    return (linear("sequence_summary.summary", h, h, run.target.batch),) if c.flag("summary_use_proj") else ()


GENERATOR_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(GENERATOR),
    "ForSequenceClassification": on_top(dense_classes()),
    "ForMultipleChoice": on_top(summary, classes("classifier", 1, pooled=True)),
}


def narrow_words(c: Config, run: Workload, *, width: str = "embedding_size", placed: bool = True) -> Component:
    """Words, positions and token types of a width of their own."""
    e = c.size(width)
    tables = (positions(c, run, width=e), token_types(c, run, width=e)) if placed else (token_types(c, run, width=e),)
    return embeddings(c, run, *tables, width=e)


def widened(c: Config, run: Workload, name: str = "embeddings_project") -> tuple[Component, ...]:
    """The map to the hidden size, where the widths differ."""
    if c.number("embedding_size") == c.number("hidden_size"):
        return ()
    return (linear(name, c.size("embedding_size"), c.size("hidden_size"), run.target.tokens),)


@family(
    "albert",
    architecture="AlbertForMaskedLM",
    heads=ALBERT_HEADS,
    vocab_size=30000,
    embedding_size=128,
    hidden_size=4096,
    num_hidden_layers=12,
    num_hidden_groups=1,
    num_attention_heads=64,
    intermediate_size=16384,
    inner_group_num=1,
    hidden_act="gelu_new",
    max_position_embeddings=512,
    type_vocab_size=2,
    tie_word_embeddings=True,
)
def albert(c: Config, run: Workload) -> Component:
    """Lan et al. 2019 (arXiv 1909.11942): one group of layers (``num_hidden_groups``) is run again and again."""
    e, h, n, groups = c.size("embedding_size"), c.size("hidden_size"), *map(c.number, GROUPED)
    runs = [[layer * groups // n for layer in range(n)].count(group) for group in range(groups)]

    def group(times: int) -> Component:
        passes = c.quotient(*GROUPED) if len(set(runs)) == 1 else times
        return Component("group", "layer", parts=(albert_layer(c, run),), passes=passes)

    repeated = stack("albert_layer_groups", runs, c.size("num_hidden_groups"), group)
    widen = linear("embedding_hidden_mapping_in", e, h, run.target.tokens)
    return Component(
        "albert",
        "encoder",
        parts=(narrow_words(c, run), stacked(widen, *repeated), *pooler(c, run, PAIRED, "pooler")),
    )


GROUPED = ("num_hidden_layers", "num_hidden_groups")


def albert_layer(c: Config, run: Workload) -> Component:
    """``inner_group_num`` layers, each with weights of its own."""
    mixer = attention(c, run, names=("query", "key", "value", "dense"))
    norms = ("attention.LayerNorm", "", "full_layer_layer_norm")
    made = layers(c, run, mixer, norms=norms, ffn=feed_forward(c, run, names=("ffn", "ffn_output")))
    return made._replace(name="albert_layers", copies=c.size("inner_group_num"))


@family(
    "electra",
    architecture="ElectraForPreTraining",
    heads={**GENERATOR_HEADS, "ForPreTraining": on_top(DISCRIMINATOR)},
    **BERT | {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024},
    embedding_size=128,
    summary_use_proj=True,
)
def electra(c: Config, run: Workload) -> Component:
    """Clark et al. 2020 (arXiv 2003.10555): BERT without a pooler; it tells real words from those of a generator."""
    stack_ = layers(c, run, attention(c, run), cross=cross_attention(c, run))
    return Component("electra", "encoder", parts=(narrow_words(c, run), *widened(c, run), stacked(stack_)))
