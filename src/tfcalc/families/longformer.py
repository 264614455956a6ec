"""BERTs that read long sequences: their attention does not compare all pairs."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.families.bert import (
    BERT,
    FIRST_TOKEN,
    attention,
    bert_like,
    feed_forward,
    pooler,
    with_tables,
)
from tfcalc.families.bert_heads import BERT_HEADS, ROBERTA_HEADS, classes, dense_classes, on_top
from tfcalc.families.config import Config
from tfcalc.families.family import Head, family
from tfcalc.leaves import linear, norm
from tfcalc.workload import Workload


@family("longformer", architecture="LongformerForMaskedLM", heads=ROBERTA_HEADS, **BERT)
def longformer(c: Config, run: Workload) -> Component:
    """Beltagy et al. 2020 (arXiv 2004.05150): RoBERTa with further projections for tokens that all others see."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    within = tuple(linear(f"self.{part}_global", h, h, tokens) for part in ("query", "key", "value"))
    mixer = attention(c, run, within=within)
    return bert_like("longformer", c, run, *with_tables(c, run), pooled=FIRST_TOKEN, mixer=mixer, cross=False)


def span(c: Config, run: Workload) -> Iterator[Component]:
    """A feed-forward network, and then where the answer begins and ends."""
    name = "qa_classifier"
    last = norm("output.LayerNorm", "layernorm", c.size("hidden_size"), run.target.tokens)
    yield Component(name, "head", parts=(feed_forward(c, run), last, *classes("qa_outputs", 2)(c, run)))


BIG_BIRD_HEADS: dict[str, Head] = {
    **BERT_HEADS,
    "ForSequenceClassification": on_top(dense_classes()),
    "ForQuestionAnswering": on_top(span),
}
BIG_BIRD_POOLED = tuple(head for head in BIG_BIRD_HEADS if head != "ForQuestionAnswering")


@family(
    "big_bird",
    architecture="BigBirdForMaskedLM",
    heads=BIG_BIRD_HEADS,
    **BERT | {"vocab_size": 50358, "hidden_act": "gelu_new", "max_position_embeddings": 4096},
    use_bias=True,
)
def big_bird(c: Config, run: Workload) -> Component:
    """Zaheer et al. 2020 (arXiv 2007.14062): all classes but question answering keep the pooler."""
    made = bert_like("bert", c, run, *with_tables(c, run), pooled=(), bias=c.flag("use_bias"))
    return made._replace(parts=(*made.parts, *pooler(c, run, BIG_BIRD_POOLED, "pooler")))
