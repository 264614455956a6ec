"""LFM2's gated short convolution in the place of attention; other recurrences run as a sequence of their parts."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.running import Running, by_letter, has, in_sequence
from tfcalc.tape.value import Value


def recurrence(m: Running, part: Component, x: Value) -> Value:
    """``W_out (C · conv(B · x))``, where one map makes B, C and x (Lfm2ShortConv)."""
    maps = by_letter(part)
    gates = [leaf for leaf in part.parts if leaf.kind == "scan" and leaf.name == "gates"]
    if not gates or not has(part, "convolution"):
        return in_sequence(m, part, x)
    t, width = m.t, x.elements
    before, behind, inner = t.split(m(maps["W_in"], x), [width, width, width])
    made = t.mul(behind, _convolved(m, part, t.mul(before, inner)), width)
    return m(maps["W_out"], t.copied(made, width, "contiguous"))


def _convolved(m: Running, part: Component, x: Value) -> Value:
    """Padded on both sides, and what is too much is a view's: keeps what it read, and the weight."""
    t = m.t
    (leaf,) = (each for each in part.parts if each.kind == "convolution")
    with t.inside(leaf.name):
        weight, *_ = (t.lower_weight(m.weight(tensor)) for tensor in leaf.own.weights)
    x, rows = t.lower(x), m.stream.batch * divide(x.elements, m.stream.tokens)
    longer = divide(leaf.own.weights[0].size * m.stream.tokens, x.elements) - 1
    return t.result("conv1d", [x, weight], x.elements + rows * longer, x.dtype, saves=[x, weight])
