"""Gates of what attention makes: of a map of their own, or beside the queries."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running, by_letter
from tfcalc.tape.value import Value

GATE = "W_gate"


def with_gate(m: Running, part: Component, queries: Num, q: Value, x: Value) -> tuple[Value, Value | None]:
    """The queries, and what the gate is made of, if there is one.

    A map that is twice as wide makes both, head by head: the queries stay a view, and the gate is copied.
    """
    maps = by_letter(part)
    if GATE in maps:
        return q, m(maps[GATE], x)
    if q.elements == queries:
        return q, None
    q, gate = m.t.split(q, [queries, queries])
    return q.view(heads=True), m.t.copied(gate, queries, "gate")


def gated(m: Running, part: Component, x: Value, gate: Value | None) -> Value:
    """``x`` times an activation of the gate; a sigmoid where the block names none."""
    if gate is None:
        return x
    acts = [leaf for leaf in part.parts if leaf.kind == "activation"]
    opened = m(acts[0], gate) if acts else m.t.of_result("sigmoid", gate)
    return m.t.mul(x, opened, x.elements)
