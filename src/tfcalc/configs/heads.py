"""What is put on top of a base model, by the end of its class's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tfcalc.configs.config import Config
from tfcalc.configs.tops import labels as labels
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.configs.family import Head

Width = str | Callable[[Config], Num]
"""The field that says how wide the vectors are which a head reads, or a function of the config."""


def bare(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """The base model by itself: its parts are the whole model's."""
    return base.parts


def lm_head(name: str = "lm_head", *, width: Width = "hidden_size", bias: bool = False) -> Head:
    """Logits over the vocabulary, by a matrix that may be the embedding's (``tie_word_embeddings``)."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        yield base
        tied = c.flag("tie_word_embeddings")
        yield output(name, _width(c, width), c.size("vocab_size"), run, bias=bias, tied=tied)

    return head


def classifier(
    name: str = "score", *, width: Width = "hidden_size", bias: bool = False, classes: int | None = None
) -> Head:
    """Logits over ``classes``, or ``num_labels`` of them."""

    def head(c: Config, run: Workload, base: Component) -> Iterator[Component]:
        yield base
        yield linear(name, _width(c, width), classes or labels(c), run.target.tokens, bias=bias)

    return head


def renamed(name: str, head: Head) -> Head:
    """The same head around a base that goes by another name."""
    return lambda c, run, base: head(c, run, base._replace(name=name))


def output(name: str, width: Num, vocabulary: Num, run: Workload, *, tied: bool, bias: bool = False) -> Component:
    """The matrix that makes logits of vectors."""
    tied_to = "embedding" if tied else None
    head = linear(name, width, vocabulary, run.positions_with_logits, bias=bias, letter="vocab", tied_to=tied_to)
    return head._replace(kind="output")


def _width(c: Config, width: Width) -> Num:
    return c.size(width) if isinstance(width, str) else width(c)


CAUSAL_LM = {
    "Model": bare,
    "ForCausalLM": lm_head(),
    "LMHeadModel": lm_head(),
    "ForSequenceClassification": classifier("score"),
    "ForTokenClassification": classifier("score", bias=True),
    "ForQuestionAnswering": renamed("transformer", classifier("qa_outputs", bias=True, classes=2)),
}
"""Heads of decoder-only language models (transformers' Generic… classes)."""
