"""Norms of queries and keys inside attention."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.implementations.transformers import leaves
from tfcalc.implementations.transformers.running import Running, of_kind
from tfcalc.tape.value import Value

LONE = ("sub_norm", "groupnorm")
"""Parts of names of norms that are none of queries, keys or values."""


def heads_normed(m: Running, part: Component, *heads: Value) -> tuple[Value, ...]:
    """Queries, keys and values after their norms, as many as the block has: of each head, or of all that a map made."""
    norms = [leaf for leaf in part.parts if leaf.kind == "norm" and not any(word in leaf.name for word in LONE)]
    width = of_kind(part, "attend").own.products[0].factors[-1]
    normed = (_normed(m, norm, x, width) for norm, x in zip(norms, heads, strict=False))
    return *normed, *heads[len(norms) :]


def _normed(m: Running, part: Component, x: Value, width: Num) -> Value:
    """Whatever shape its weight has, ``each`` head may be normed by itself; ``split`` heads are put together again.

    Heads that are a view stay one, unless a kernel has written them anew (``placed``).
    """
    each = m.habits.norms_heads in ("each", "split", "placed")
    rows = divide(x.elements, width if each else part.own.elementwise[0].width)
    with m.t.inside(part.name):
        made = leaves.normed(m, part, x, rows)
    if m.habits.norms_heads == "split":
        return m.t.joined([made], made.elements)
    return made.view(heads=m.habits.norms_heads != "placed")


def mixture_normed(m: Running, part: Component, mixture: Value) -> Value:
    """The mixture of all heads behind a norm of its own, where the block has one (BitNet)."""
    for norm in (leaf for leaf in part.parts if leaf.kind == "norm" and LONE[0] in leaf.name):
        mixture = m(norm, mixture)
    return mixture
