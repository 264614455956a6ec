"""What BERT and its kin put on top: predictions of words, classes of sequences and of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import Head
from tfcalc.configs.heads import bare, labels, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.workload import Workload

Make = Callable[[Config, Workload], Iterable[Component]]

TRANSFORM = ("transform.dense", "transform.LayerNorm", "decoder")


def on_top(*makes: Make) -> Head:
    """The base model with these beside it."""
    return lambda c, run, base: (base, *(part for make in makes for part in make(c, run)))


def predictions(
    name: str,
    names: tuple[str, str, str] = TRANSFORM,
    *,
    width: str = "hidden_size",
    act: str = "",
) -> Make:
    """A map, an activation and a norm, then logits of every token by the words' own vectors.

    The bias stands beside the ``decoder``: it is the decoder's own too where its matrix is tied, but not where it is
    untied. That is how transformers builds it.
    """
    return lambda c, run: [predicted(name, c, run, c.size(width), names, act)]


def predicted(
    name: str, c: Config, run: Workload, width: Num, names: tuple[str, str, str] = TRANSFORM, act: str = ""
) -> Component:
    """The same for vectors of any width."""
    return Component(name, "head", parts=(*transform(c, run, width, names, act), *logits(c, run, width, names[2])))


def logits(c: Config, run: Workload, width: Num, name: str = "decoder") -> Iterator[Component]:
    """The matrix with the words' own vectors, and its bias."""
    vocabulary, tied = c.size("vocab_size"), c.flag("tie_word_embeddings")
    decoder = output(name, width, vocabulary, run, tied=tied, bias=True)
    yield shared(decoder, "bias") if tied else decoder
    yield parameter("bias", vocabulary, minor=True)


def apart(names: tuple[str, str, str], *, width: str = "hidden_size", act: str = "") -> Make:
    """The same with the three side by side in the model, and one bias."""

    def make(c: Config, run: Workload) -> Iterator[Component]:
        e = c.size(width)
        yield from transform(c, run, e, names, act)
        yield output(names[2], e, c.size("vocab_size"), run, tied=c.flag("tie_word_embeddings"), bias=True)

    return make


def transform(c: Config, run: Workload, width: Num, names: tuple[str, ...], act: str = "") -> Iterator[Component]:
    """A map to ``width``, an activation and a norm."""
    tokens = run.target.tokens
    yield linear(names[0], c.size("hidden_size"), width, tokens)
    yield activation("activation", act or c.word("hidden_act"), tokens * width)
    yield norm(names[1], "layernorm", width, tokens)


def shared(component: Component, tied_to: str) -> Component:
    """The component with weights that are stored elsewhere."""
    own = component.own
    return component._replace(
        own=own._replace(weights=tuple(w._replace(tied_to=w.tied_to or tied_to) for w in own.weights))
    )


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


def lm(make: Make) -> dict[str, Head]:
    """The classes that predict words."""
    head = on_top(make)
    return {"ForMaskedLM": head, "ForCausalLM": head, "LMHeadModel": head}


TASKS: dict[str, Head] = {
    "Model": bare,
    "ForSequenceClassification": on_top(classes("classifier", pooled=True)),
    "ForMultipleChoice": on_top(classes("classifier", 1, pooled=True)),
    "ForTokenClassification": on_top(classes("classifier")),
    "ForQuestionAnswering": on_top(classes("qa_outputs")),
}
ANSWER = on_top(classes("qa_outputs", 2))
"""Where the answer begins and ends, in those that do not ask for ``num_labels``."""
NEXT_SENTENCE = classes("cls.seq_relationship", 2, pooled=True)
PREDICTIONS = predictions("cls.predictions")
BERT_HEADS: dict[str, Head] = {
    **TASKS,
    **lm(PREDICTIONS),
    "ForPreTraining": on_top(PREDICTIONS, NEXT_SENTENCE),
    "ForNextSentencePrediction": on_top(NEXT_SENTENCE),
}
LM_HEAD = predictions("lm_head", ("dense", "layer_norm", "decoder"), act="gelu")
ROBERTA_HEADS: dict[str, Head] = {**TASKS, **lm(LM_HEAD), "ForSequenceClassification": on_top(dense_classes())}
