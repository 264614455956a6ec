"""Rotary positions: queries and keys turned by angles that all layers read."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.implementations import kernels
from tfcalc.implementations.transformers.running import Running, of_kind
from tfcalc.tape.tape import Value

Angles = tuple[Value, Value]


def both_turned(m: Running, part: Component, q: Value, k: Value) -> tuple[Value, Value]:
    """Queries and keys, by cos and sin; a layer may first put these in another order (GLM's repeat_interleave)."""
    angles = m.shared.angles
    assert angles is not None
    if m.habits.angles_by_layer:
        cos, sin = angles
        angles = m.t.copied(cos, cos.elements, "cos, interleaved"), m.t.copied(sin, sin.elements, "sin, interleaved")
    return turned(m, part, q, angles), turned(m, part, k, angles)


def turned(m: Running, part: Component, x: Value, angles: Angles) -> Value:
    """``x·cos + rotate_half(x)·sin``; of a part of each head's width, the rest is put beside it, in new memory."""
    if m.habits.fused:
        return kernels.turned(m, x, angles)
    t, whole = m.t, of_kind(part, "attend").own.products[0].factors[-1]
    width = rotated_width(part)
    if width == whole:
        x = _turned(m, x, angles)
        return t.joined([x], x.elements) if m.habits.joins_turned else x
    turning = divide(x.elements * width, whole)
    first, rest = t.split(x, [turning, x.elements - turning])
    return t.joined([_turned(m, first.view(heads=x.heads), angles), rest], x.elements)


def _turned(m: Running, x: Value, angles: Angles) -> Value:
    t, kind = m.t, x.dtype
    cos, sin = angles
    if m.habits.turns_in_float32:
        x = t.to(x, "float32")
    made = t.add(t.mul(x, cos), t.mul(t.copied(x, x.elements, "rotate_half", heads=x.heads), sin))
    return t.to(made, kind).view(heads=x.heads)


def rotated_width(part: Component) -> Num:
    """How much of a head's width is rotated."""
    return of_kind(part, "rotary").own.elementwise[0].width
