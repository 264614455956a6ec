"""Recurrences over time as calls, with the costs of :mod:`tfcalc.ops.recurrences` and .linear_attention."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Cached, Component
from tfcalc.core.traced import value_of
from tfcalc.tape.tensor import Call, Leaf, MatMul, Shape, Tensor


def recurrence(
    formula: Component,
    x: Tensor,
    shape: Shape,
    code: Callable[[], Tensor],
    *,
    cached: tuple[Cached, ...] = (),
) -> Tensor:
    """Run a recurrence of ``x`` with the costs of ``formula``; ``code`` runs a library's kernels for it.

    All its inputs are computed from ``x``, which is therefore given as the operand of each product.
    """
    own = formula.own
    products = tuple(
        MatMul(p.name, p.factors, (x,) * value_of(p.backward), overcounted=p.overcounted) for p in own.products
    )
    leaf = Leaf(formula.name, formula.kind)
    call = Call(formula.name, (x,), shape, x.dtype, products, own.elementwise, cached=cached, leaf=leaf)
    return x.trace.composite(call._replace(saves_result=True), code)
