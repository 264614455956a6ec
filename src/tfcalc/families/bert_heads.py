"""What BERT and its kin put on top: predictions of words, classes of sequences and of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head
from tfcalc.configs.heads import bare, labels
from tfcalc.core.component import Component
from tfcalc.leaves import linear
from tfcalc.workload import Workload

Make = Callable[[Config, Workload], Iterable[Component]]


def on_top(*makes: Make) -> Head:
    """The base model with these beside it."""
    return lambda c, run, base: (base, *(part for make in makes for part in make(c, run)))


def classes(name: str, count: int | None = None, *, pooled: bool = False) -> Make:
    """``count`` logits (else ``num_labels``), of every token or, ``pooled``, of the sequence."""

    def make(c: Config, run: Workload) -> Iterator[Component]:
        vectors = run.target.batch if pooled else run.target.tokens
        yield linear(name, c.size("hidden_size"), labels(c) if count is None else count, vectors)

    return make


def dense_classes(
    names: tuple[str, str] = ("classifier.dense", "classifier.out_proj"),
    count: int | None = None,
    *,
    pooled: bool = True,
) -> Make:
    """A map of the first token's vector (of every token's, unless ``pooled``), and then its logits."""

    def make(c: Config, run: Workload) -> Iterator[Component]:
        h, vectors = c.size("hidden_size"), run.target.batch if pooled else run.target.tokens
        yield linear(names[0], h, h, vectors)
        yield linear(names[1], h, labels(c) if count is None else count, vectors)

    return make


TASKS: dict[str, Head] = {
    "Model": bare,
    "ForSequenceClassification": on_top(classes("classifier", pooled=True)),
    "ForMultipleChoice": on_top(classes("classifier", 1, pooled=True)),
    "ForTokenClassification": on_top(classes("classifier")),
    "ForQuestionAnswering": on_top(classes("qa_outputs")),
}
