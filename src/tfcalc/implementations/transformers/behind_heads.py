"""What becomes of the heads' mixtures before they are projected: a norm, or a gate for each of them."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers.activations import activation
from tfcalc.implementations.transformers.running import Running, by_letter, has, of_kind
from tfcalc.tape.value import Value

GATES = ("W_gate", "W_g")
"""The map that makes gates of what the block reads: one for each head, or for each of its numbers."""


def behind_heads(m: Running, part: Component, x: Value, mixture: Value) -> Value:
    """The mixture of all heads, normed (BitNet) or gated where the block has a part for that."""
    for norm in (leaf for leaf in part.parts if leaf.kind == "norm" and "sub_norm" in leaf.name):
        mixture = m(norm, mixture)
    maps = by_letter(part)
    gate = next((maps[letter] for letter in GATES if letter in maps), None)
    return mixture if gate is None else m.t.mul(mixture, _opened(m, part, m(gate, x)))


def _opened(m: Running, part: Component, gate: Value) -> Value:
    """A gate by its activation, a sigmoid if it has none; some families run it in fp32."""
    kind = gate.dtype
    if m.habits.gates_in_float32:
        gate = m.t.to(gate, "float32")
    gate = (
        activation(m, of_kind(part, "activation"), gate) if has(part, "activation") else m.t.of_result("sigmoid", gate)
    )
    return m.t.to(gate, kind)
