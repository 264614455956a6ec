"""Gates of what attention makes: of a map of their own, or beside the queries."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running, by_letter, has, of_kind
from tfcalc.tape.value import Value

GATES = ("W_gate", "W_g")
"""The map that makes gates of what the block reads: one for each head, or for each of its numbers."""


def gate_of(m: Running, part: Component, x: Value) -> Value | None:
    """What the block's gate is made of, if it has a map for it."""
    maps = by_letter(part)
    return next((m(maps[letter], x) for letter in GATES if letter in maps), None)


def with_gate(m: Running, part: Component, queries: Num, q: Value, x: Value) -> tuple[Value, Value | None]:
    """The queries, and what the gate is made of, if there is one.

    A map that is twice as wide makes both, head by head: the queries stay a view, and the gate is copied.
    """
    if q.elements == queries:
        return q, gate_of(m, part, x)
    q, gate = m.t.split(q, [queries, queries])
    return q.view(heads=True), m.t.copied(gate, queries, "gate")


def gated(m: Running, part: Component, x: Value, gate: Value | None) -> Value:
    """``x`` times an activation of the gate, a sigmoid where the block names none."""
    if gate is None:
        return x
    opened = m(of_kind(part, "activation"), gate) if has(part, "activation") else m.t.of_result("sigmoid", gate)
    return m.t.mul(x, opened, x.elements)
