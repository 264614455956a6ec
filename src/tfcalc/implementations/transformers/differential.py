"""Differential attention: the heads' mixtures of one half of the values less λ times those of the other."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.leaves import olmo_norm
from tfcalc.implementations.transformers.running import Running, has, of_kind
from tfcalc.tape.value import Value


def is_differential(part: Component) -> bool:
    """Whether the block has trained vectors for λ."""
    return has(part, "parameter") and any(leaf.name.startswith("lambda_q") for leaf in part.parts)


def difference(m: Running, part: Component, v: Value, mixed: Callable[[Value], Value]) -> Value:
    """Each half of the values is repeated, and ``mixed`` by all heads (transformers' DiffLlamaAttention)."""
    t, width = m.t, of_kind(part, "attend").own.products[0].factors[-1]
    halves = t.split(v, [divide(v.elements, 2)] * 2)
    repeated = [t.copied(half.view(heads=True), v.elements, "repeat", heads=True) for half in halves]
    del halves
    made = [mixed(each) for each in repeated]
    both = t.joined(made, 2 * made[0].elements)
    first, second = t.split(both, [made[0].elements] * 2)
    λ = t.scaled(t.add(_lambda(m, part, "1", both.dtype), _lambda(m, part, "2", both.dtype)))
    x = t.add(first, t.mul(second, λ, second.elements))
    return t.scaled(olmo_norm(m, x, divide(x.elements, 2 * width), None))


def _lambda(m: Running, part: Component, which: str, kind: str) -> Value:
    """The exponential of a product of two vectors, in fp32."""
    t, named = m.t, {leaf.name: leaf for leaf in part.parts}
    of_queries, of_keys = (m.trained(named[f"lambda_{letter}{which}"]) for letter in "qk")
    summed = t.result("sum", [t.mul(of_queries, of_keys)], 1, "float32")
    return t.to(t.of_result("exp", summed), kind)
