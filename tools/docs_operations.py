"""What operations do beside matrix products (``<!-- elementwise -->``), as a table: each is run, and says it itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tfcalc.core.component import Component, Elementwise, Weight
from tfcalc.core.number import Pairs
from tfcalc.nn.module import Module
from tfcalc.ops import attention, convolution, distances, elementwise, frames, gru, products, relative, rows
from tfcalc.ops.linear_attention import delta_rule, lightning, matrix_memory
from tfcalc.ops.recurrences import GATED_SUMS, States, gated_sum, selective_scan, state_space
from tfcalc.ops.scores import score
from tfcalc.ops.work import ACTIVATIONS, FURTHER_ACTIVATIONS, FURTHER_NORMS, NORMS
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Tensor

PAIRS = Pairs((2,), 1)
STATES = States(1, 1, 1, 1, 1, step=True)

Run = Callable[[Tensor, Tensor], object]
"""An operation on a vector of one number, and on a weight of one."""


def nothing() -> Tensor:
    """The code of a library, which counting never runs."""
    raise NotImplementedError


def ran(run: Run, shape: tuple[int, ...] = (1, 1, 1), weight: tuple[int, ...] = (1, 1)) -> list[Elementwise]:
    """What an operation counts, on numbers of these shapes."""
    trace = Counting()
    with trace.inside(Module("operation")):
        run(trace.reached(shape), trace.weight(Weight("W", weight)))
    (record,) = trace.record.inside.values()
    return list(_works(record.component()))


def _works(part: Component) -> Iterator[Elementwise]:
    yield from part.own.elementwise
    for each in part.parts:
        yield from _works(each)


def operations() -> Iterator[tuple[str, Callable[..., Any], list[Elementwise]]]:
    """Every operation that has such work, the work, and what its elements are."""
    yield "the output", products.linear, ran(lambda x, w: products.linear(x, w, w))
    yield "the output", frames.convolution, ran(lambda x, w: frames.convolution(x, w, w, 1), weight=(1, 1, 1))
    yield "the normalised channels", frames.batch_norm, ran(lambda x, w: frames.batch_norm(x, w, w, w, w))
    for kind in NORMS | FURTHER_NORMS:
        yield "the normalised vectors", rows.norm, ran(partial(_normed, kind))
    for kind in ACTIVATIONS | FURTHER_ACTIVATIONS:
        yield "the inner layer", elementwise.activation, ran(partial(_activated, kind))
    heads = (1, 1, 1, 1)
    scores = "the scores, of all heads"
    yield scores, attention.attend, ran(lambda x, _: attention.attend(x, x, x, PAIRS, nothing), heads)
    turned = ran(lambda x, _: attention.rotary(x, x, 1, lambda: (x, x)), heads)
    yield "queries and keys", attention.rotary, turned
    yield "the stream", elementwise.residual, ran(lambda x, _: elementwise.residual(x, x, "sub"))
    dropped = ran(lambda x, _: elementwise.dropout(x, "dropout"))
    yield "what it is applied to, in training only", elementwise.dropping, dropped
    words = "the embedded tokens"
    yield words, rows.embedding, ran(lambda x, w: rows.embedding(w, x))
    yield words, rows.position, ran(lambda x, w: rows.position(w, x, 1))
    yield words, rows.sines, ran(lambda x, _: rows.sines(x, 1, 1, "float32"))
    yield words, gru.gru, ran(lambda x, w: gru.gru(x, (w, w), 1))
    yield scores, relative.relative_scores, ran(lambda x, _: relative.relative_scores("relative", x, x, 1), heads)
    pairs = "rows looked up for the pairs of a sequence"
    yield pairs, distances.rows_by_distance, ran(lambda _, w: distances.rows_by_distance(w, 1))
    added = ran(lambda x, _: distances.with_vectors(x, "keys", "Q A_Kᵀ", 1, PAIRS, 1), heads)
    yield scores, distances.with_vectors, added
    yield scores, distances.times_factors, ran(lambda x, _: distances.times_factors(x, 1))
    for trained in (True, False):
        yield scores, distances.plus_bias, ran(partial(_biased, trained))
    yield "the queries", distances.plus_vector, ran(distances.plus_vector)
    yield "the state, for each token, and its channels", selective_scan, _of(selective_scan("scan", 1, 1, 1))
    for made in (STATES, STATES._replace(step=False)):
        elements = "the state, in decode" if made.step else "the scores or the state, by chunks"
        yield elements, state_space, _of(state_space("scan", made, 1))
        yield elements, lightning, _of(lightning("scan", made, 1))
        yield elements, delta_rule, _of(delta_rule("scan", made))
        yield elements, matrix_memory, _of(matrix_memory("scan", made, 1))
    for kind in GATED_SUMS:
        yield "the channels", gated_sum, _of(gated_sum("sum", kind, 1))
    stepped = ran(lambda x, w: convolution.summed_step(x, w, None))
    yield "the taps of the channels, in decode", convolution.causal_convolution, stepped
    yield scores, score, _of(score("score", 1, 1, PAIRS))
    yield "the logits", rows.cross_entropy, ran(lambda x, _: rows.cross_entropy(x, "loss"))


def _normed(kind: str, x: Tensor, weight: Tensor) -> Tensor:
    return rows.norm(kind, x, weight, weight, nothing)


def _activated(kind: str, x: Tensor, _: Tensor) -> Tensor:
    return elementwise.activation(kind, x, nothing)


def _biased(trained: bool, q: Tensor, _: Tensor) -> Tensor:
    return distances.plus_bias(q, 1, trained=trained)


def _of(formula: Component) -> list[Elementwise]:
    return list(formula.own.elementwise)


def table() -> Iterator[str]:
    """A row for each kind of work; those that are alike stand in one."""
    yield "| operation | forward | backward | on each element of | source |"
    yield "| --- | ---: | ---: | --- | --- |"
    alike: dict[str, list[str]] = {}
    for elements, operation, works in operations():
        for work in works:
            rest = f"{work.forward} | {work.backward} | {elements} | {_source_of(operation)}"
            alike.setdefault(rest, []).append(re.sub(r"b_\w*", "b", work.name))
    for rest, names in alike.items():
        yield f"| {', '.join(dict.fromkeys(names))} | {rest} |"


def _source_of(operation: Callable[..., Any]) -> str:
    """What its docstring names as its source, as one line."""
    _, _, source = (inspect.getdoc(operation) or "").partition("Source: ")
    return " ".join(source.partition("\n\n")[0].split()).rstrip(".")
