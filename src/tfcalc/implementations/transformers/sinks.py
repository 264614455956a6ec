"""Sinks: a trained score for each head, beside those of the keys."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import WIDTHS
from tfcalc.tape.value import Value


def sinks(m: Running, part: Component) -> Value | None:
    """The block's, if it has some."""
    found = [leaf for leaf in part.parts if leaf.kind == "parameter" and leaf.name == "sinks"]
    if not found:
        return None
    with m.t.inside(found[0].name):
        return m.weight(found[0].own.weights[0])


def softmax_beside(m: Running, scores: Value, sink: Value, rows: Num) -> Value:
    """The softmax of both together, without the sink; each row's highest score, whose place is kept, may be taken off.

    Source: transformers' GptOssAttention and FlintAttention, ``eager_attention_forward``.
    """
    t = m.t
    wide = max(scores.dtype, sink.dtype, key=lambda dtype: WIDTHS[dtype])
    both = t.result("cat", [scores, sink], scores.elements + rows, wide)
    if m.habits.sinks == "less highest":
        places = Value(t.new(rows, "int64", "places of the highest"), rows, "int64")
        both = t.add(both, t.result("max", [both], rows, wide, saves=[places]))
    both = t.softmax(both, wide)
    return t.result("slice", [both], scores.elements, wide, shares=both.storage)


def scale_of_sink(m: Running, scores: Value, rows: Num) -> Value:
    """The sigmoid of the scores' logsumexp less the sink, in fp32: what a sink leaves of a row's mixture.

    Source: transformers' GraniteSWAAttention, ``eager_attention_forward``.
    """
    t = m.t
    total = t.result("logsumexp", [scores], rows, scores.dtype, saves=[scores], saves_result=True)
    return t.of_result("sigmoid", t.to(t.scaled(total), "float32"))
