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
    return m.trained(found[0]) if found else None


def softmax_beside(m: Running, scores: Value, sink: Value, rows: Num) -> Value:
    """The softmax of both together, without the sink; each row's highest score, whose place is kept, may be taken off.

    Source: transformers' GptOssAttention and FlintAttention, ``eager_attention_forward``.
    """
    t = m.t
    wide = max(scores.dtype, sink.dtype, key=lambda dtype: WIDTHS[dtype])
    both = t.result("cat", [scores, sink], scores.elements + rows, wide)
    both = softmax_less_highest(m, both, rows) if m.habits.sinks == "scores - row maximum" else t.softmax(both, wide)
    return t.result("slice", [both], scores.elements, wide, shares=both.storage)


def softmax_less_highest(m: Running, scores: Value, rows: Num) -> Value:
    """In their own format; each row's highest score, whose place is kept, is taken off first."""
    t, kind = m.t, scores.dtype
    places = Value(t.new(rows, "int64", "argmax"), rows, "int64")
    return t.softmax(t.add(scores, t.result("max", [scores], rows, kind, saves=[places])), kind)


def scale_by_sink(m: Running, scores: Value, sink: Value, rows: Num) -> Value:
    """What the sink leaves of each row: the sigmoid of the logarithm of the scores' sum, less the sink's score.

    Source: transformers' GraniteSWAAttention, ``eager_attention_forward``.
    """
    t = m.t
    sums = t.result("logsumexp", [scores], rows, scores.dtype, saves=[scores], saves_result=True)
    return t.of_result("sigmoid", t.to(t.add(sums, sink, rows), "float32"))
