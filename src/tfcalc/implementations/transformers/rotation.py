"""Rotary positions: queries and keys turned by angles that all layers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import value_of
from tfcalc.implementations import kernels
from tfcalc.implementations.transformers.masks import window
from tfcalc.implementations.transformers.running import AngleKind, Running, of_kind
from tfcalc.tape.ledger import WIDTHS, Place
from tfcalc.tape.value import Value

Angles = tuple[Value, Value]


def angles(m: Running, blocks: Sequence[Component]) -> Mapping[AngleKind | None, Angles]:
    """Those of every kind of block that is rotated, for each place or for each token; they belong to no layer."""
    first = {kind_of_angles(m, block): block for block in reversed(blocks)}
    places = m.stream.tokens if m.habits.angles_by_token else m.stream.length
    return {kind: _angles(m, places * rotated_width(block)) for kind, block in first.items()}


def kind_of_angles(m: Running, part: Component) -> AngleKind | None:
    """Layers with a window may have other angles than those without, of another width."""
    return (window(part), int(value_of(rotated_width(part)))) if m.habits.angles_by_type else None


def _angles(m: Running, elements: Num) -> Angles:
    """The cosine and the sine of each position's angles, or both in one complex number."""
    if m.habits.angles == "complex":
        both = _angle(m, "cos + i·sin", elements)
        return both, both
    if m.habits.half_angles:
        elements = divide(elements, 2)
    return _angle(m, "cos", elements), _angle(m, "sin", elements)


def _angle(m: Running, name: str, elements: Num) -> Value:
    kind = m.t.numerics.weights if m.habits.angles == "own" else "float32"
    storage = m.t.new(elements, kind, name)
    storage.home = (*m.t.module, Place("rotary"))
    return Value(storage, elements, kind)


def all_turned(m: Running, part: Component, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Queries and keys, by cos and sin; a layer may first put these in another order (GLM's repeat_interleave).

    So are the values, if RoFormer's config says so.
    """
    angles = m.shared.angles[kind_of_angles(m, part)]
    if m.habits.angles_by_layer:
        cos, sin = angles
        angles = m.t.copied(cos, cos.elements, "cos, interleaved"), m.t.copied(sin, sin.elements, "sin, interleaved")
    q, k = turned(m, part, q, angles), turned(m, part, k, angles)
    return q, k, turned(m, part, v, angles) if m.field("rotary_value") else v


def turned(m: Running, part: Component, x: Value, angles: Angles) -> Value:
    """``x·cos + rotate_half(x)·sin``; of a part of each head's width, the rest is put beside it, in new memory."""
    if m.habits.fused:
        return kernels.turned(m, x, angles)
    t, whole = m.t, of_kind(part, "attend").own.products[0].factors[-1]
    width = rotated_width(part)
    if width == whole and m.habits.angles == "complex":  # pairs of neighbours, which are complex numbers
        return halves_turned(m, part, x).view(heads=x.heads)
    if width == whole:
        x = _turned(m, x, angles)
        return t.joined([x], x.elements) if m.habits.joins_turned else x
    turning = divide(x.elements * width, whole)
    first, rest = t.split(x, [turning, x.elements - turning])
    return t.joined([_turned(m, first.view(heads=x.heads), angles), rest], x.elements)


def _turned(m: Running, x: Value, angles: Angles) -> Value:
    t, kind = m.t, x.dtype
    cos, sin = angles
    if m.habits.angles_by_turn:
        form = kind if m.habits.angles == "own" else cos.dtype
        cos, sin = (t.copied(t.to(each, form), each.elements, "repeated") for each in (cos, sin))
    if m.habits.turns_in_float32:
        x = t.to(x, "float32")
    made = t.add(t.mul(x, cos), t.mul(_rotate_half(m, x), sin))
    return _brought_back(m, made, kind).view(heads=x.heads)


def _rotate_half(m: Running, x: Value) -> Value:
    """``−x₂`` beside ``x₁``, in new memory; the gradient of each half is first as wide as both."""
    scratch = x.elements * WIDTHS[x.dtype]
    return m.t.result("rotate_half", [x], x.elements, x.dtype, heads=x.heads, scratch=scratch)


def halves_turned(m: Running, part: Component, x: Value) -> Value:
    """``x₁·cos − x₂·sin`` beside ``x₂·cos + x₁·sin``, in new memory (DeepSeek's interleaved rotation)."""
    t, kind = m.t, x.dtype
    angles = m.shared.angles[kind_of_angles(m, part)]
    if m.habits.fused:
        return kernels.turned(m, x, angles)
    cos, sin = angles
    if m.habits.turns_in_float32:
        x = t.to(x, "float32")
    return _brought_back(m, t.joined([t.add(t.mul(x, cos), t.mul(x, sin))], x.elements), kind)


def _brought_back(m: Running, x: Value, kind: str) -> Value:
    """To the format it had, where the family cares; otherwise it is as wide as cos and sin."""
    if m.habits.scores_in_float32:
        return x
    return m.t.to(x, kind) if m.habits.turns_in_float32 or m.habits.angles != "own" else x


def rotated_width(part: Component) -> Num:
    """How much of a head's width is rotated: an even number, as angles come in pairs."""
    width = of_kind(part, "rotary").own.elementwise[0].width
    return 2 * ceil_div(width, 2) if value_of(width) % 2 else width
