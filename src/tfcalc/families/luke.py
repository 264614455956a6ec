"""BERTs that read more than words: entities, tables, how a character sounds and looks."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import labels, output
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.families.bert import (
    PAIRED,
    attention,
    bert_like,
    embeddings,
    layers,
    pooler,
    positions,
    stacked,
    with_tables,
)
from tfcalc.families.bert_heads import (
    BERT_HEADS,
    PREDICTIONS,
    TASKS,
    classes,
    lm,
    on_top,
    shared,
    transform,
)
from tfcalc.leaves import embedding, linear, norm, parameter
from tfcalc.workload import Workload


def words(c: Config, run: Workload) -> Iterator[Component]:
    """Predictions of words, never tied; the bias is twice there unless ``tie_word_embeddings``."""
    h, vocabulary = c.size("hidden_size"), c.size("vocab_size")
    bias = parameter("bias", vocabulary, minor=True)
    parts = (
        *transform(c, run, h, ("dense", "layer_norm"), "gelu"),
        output("decoder", h, vocabulary, run, tied=False, bias=True),
        shared(bias, "decoder.bias") if c.flag("tie_word_embeddings") else bias,
    )
    yield Component("lm_head", "head", parts=parts)


def entities(c: Config, run: Workload) -> Iterator[Component]:
    """Predictions of entities, by their own vectors (``tie_word_embeddings``); of none where only words are read."""
    run = run.replaced(seq_len=0)
    e, known = c.size("entity_emb_size"), c.size("entity_vocab_size")
    parts = (
        *transform(c, run, e, ("transform.dense", "transform.LayerNorm")),
        output("decoder", e, known, run, tied=c.flag("tie_word_embeddings")),
        parameter("bias", known, minor=True),
    )
    yield Component("entity_predictions", "head", parts=parts)


def pair(c: Config, run: Workload) -> Iterator[Component]:
    """Logits of two entities together."""
    yield linear("classifier", 2 * c.size("hidden_size"), labels(c), run.target.batch, bias=False)


def span(c: Config, run: Workload) -> Iterator[Component]:
    """Logits of an entity, with its first word and its last."""
    yield linear("classifier", 3 * c.size("hidden_size"), labels(c), run.target.batch)


LUKE_HEADS: dict[str, Head] = {
    **TASKS,
    "ForMaskedLM": on_top(words, entities),
    "ForEntityClassification": on_top(classes("classifier", pooled=True)),
    "ForEntityPairClassification": on_top(pair),
    "ForEntitySpanClassification": on_top(span),
}
ENTITIES = {"ForEntityClassification": 1, "ForEntityPairClassification": 2, "ForEntitySpanClassification": 1}
"""How many entities the classes read that ask for some."""
LUKE_POOLED = tuple(head for head in LUKE_HEADS if head not in ("ForTokenClassification", "ForQuestionAnswering"))


@family("luke", architecture="LukeForMaskedLM", heads=LUKE_HEADS)
def luke(c: Config, run: Workload) -> Component:
    """Yamada et al. 2020 (arXiv 2010.01057): RoBERTa that reads entities too, with queries for each pair of kinds."""
    number = ENTITIES.get(c.head, 0)
    beside, together = run.replaced(seq_len=number), run.replaced(seq_len=run.seq_len + number)
    mixer = attention(c, together)
    if c.flag("use_entity_aware_attention"):
        mixer = mixer._replace(parts=(*queries(c, run, beside), *mixer.parts[1:]))
    parts = (
        embeddings(c, run, *with_tables(c, run)),
        entity_embeddings(c, beside),
        stacked(layers(c, together, mixer)),
        *pooler(c, run, LUKE_POOLED),
    )
    return Component("luke", "encoder", parts=parts)


def queries(c: Config, words: Workload, entities: Workload) -> Iterator[Component]:
    """Those of words to words and to entities, of entities to words and to each other."""
    h = c.size("hidden_size")
    met = words if c.head in ENTITIES else entities  # no words ask for entities where there are none
    for name, asking in (("query", words), ("w2e_query", met), ("e2w_query", entities), ("e2e_query", entities)):
        yield linear(f"self.{name}", h, h, asking.target.tokens)


def entity_embeddings(c: Config, run: Workload) -> Component:
    """Narrow vectors of entities, widened to the hidden size."""
    e, h, tokens = c.size("entity_emb_size"), c.size("hidden_size"), run.target.tokens
    narrow = c.number("entity_emb_size") != c.number("hidden_size")
    parts = (
        embedding("entity_embeddings", c.size("entity_vocab_size"), e, tokens),
        *([linear("entity_embedding_dense", e, h, tokens, bias=False)] if narrow else []),
        *with_tables(c, run),
        norm("LayerNorm", "layernorm", h, tokens),
    )
    return Component("entity_embeddings", "embeddings", parts=parts)


def cells(c: Config, run: Workload) -> Iterator[Component]:
    """Which cells answer the question, and how they are to be aggregated; the column is chosen without a gradient."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    chosen = Cost(products=(Product("X w", (2, tokens, h)), Product("X w_column", (2, tokens, h), backward=0)))
    yield Component("(cells)", "linear", chosen)
    for name in ("output", "column_output"):
        yield parameter(f"{name}_weights", h)
        yield parameter(f"{name}_bias", 1, minor=True)
    if c.number("num_aggregation_labels", least=0):
        yield linear("aggregation_classifier", h, c.size("num_aggregation_labels"), run.target.batch)


TAPAS_HEADS: dict[str, Head] = {**TASKS, **lm(PREDICTIONS), "ForQuestionAnswering": on_top(cells)}


@family("tapas", architecture="TapasForMaskedLM", heads=TAPAS_HEADS)
def tapas(c: Config, run: Workload) -> Component:
    """Herzig et al. 2020 (arXiv 2004.02349): BERT with a table for each thing that is known of a cell."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    tables = (
        embedding(f"token_type_embeddings_{place}", rows, h, tokens)
        for place, rows in enumerate(c.numbers("type_vocab_sizes"))
    )
    pooled = ("Model", "ForSequenceClassification", "ForQuestionAnswering")
    read = pooled if c.number("num_aggregation_labels", least=0) else pooled[:2]
    made = bert_like("tapas", c, run, positions(c, run), *tables, pooled=())
    return made._replace(parts=(*made.parts, *pooler(c, run, pooled, read=read)))


@family("roc_bert", architecture="RoCBertForCausalLM", heads={**BERT_HEADS, "ForPreTraining": on_top(PREDICTIONS)})
def roc_bert(c: Config, run: Workload) -> Component:
    """Su et al. 2022 (RoCBert, ACL): BERT with how each character sounds and looks, put beside it or added."""
    return bert_like("roc_bert", c, run, *with_tables(c, run), *sounds_and_shapes(c, run), pooled=PAIRED)


def sounds_and_shapes(c: Config, run: Workload) -> Iterator[Component]:
    """Their tables, and the map of all that is put together."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    together = h
    for name in ("pronunciation", "shape"):
        width = c.size(f"{name}_embed_dim")
        yield embedding(f"{name}_embed", c.size(f"{name}_vocab_size"), width, tokens)
        together = together + width if c.flag(f"enable_{name}") else together
    if c.flag("concat_input"):
        yield linear("map_inputs_layer", together, h, tokens)
