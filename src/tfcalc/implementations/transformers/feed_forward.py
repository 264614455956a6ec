"""Feed-forward networks: two maps with an activation between them, or three with a gate."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations import kernels
from tfcalc.implementations.transformers.running import Running, by_letter, of_kind
from tfcalc.tape.value import Value


def feed_forward(m: Running, part: Component, x: Value) -> Value:
    """``W_2 (act(W_g x) · W_1 x)``, or ``W_2 act(W_1 x)``; gate and input may be one map, whose halves they are."""
    maps, act = by_letter(part), of_kind(part, "activation")
    if "W_g" in maps:
        if m.habits.fused:
            return _last(m, part, kernels.gated(m, m(maps["W_g"], x), m(maps["W_1"], x)))
        return _last(m, part, m.t.mul(m(act, m(maps["W_g"], x)), m(maps["W_1"], x)))  # the gate is gone by then
    inner = m(maps["W_1"], x)
    if _fused(maps):
        half = divide(inner.elements, 2)
        gate, up = m.t.split(inner, [half, half])
        del inner
        return _last(m, part, gated(m, act, gate, up))
    inner = m(act, inner)
    return _last(m, part, inner)


def gated(m: Running, act: Component, gate: Value, up: Value) -> Value:
    """``act(gate) · up``."""
    return kernels.gated(m, gate, up) if m.habits.fused else m.t.mul(m(act, gate), up)


def _last(m: Running, part: Component, inner: Value) -> Value:
    """The map back, behind a norm if there is one; without autocast what it reads is in its weights' format anyway."""
    for norm in (leaf for leaf in part.parts if leaf.kind == "norm"):
        inner = m(norm, inner)
    inner = m.dropped(inner, m.habits.dropped_inside)
    return m(by_letter(part)["W_2"], m.t.to(inner, m.t.numerics.weights) if m.habits.inside_as_weights else inner)


def _fused(maps: dict[str, Component]) -> bool:
    """Whether the first map makes gate and input."""
    return maps["W_1"].own.weights[0].shape[1] != maps["W_2"].own.weights[0].shape[0]
