"""Recurrences over time: what each costs, whatever code runs it.

The formulas are those of :mod:`tfcalc.ops.recurrences` and :mod:`tfcalc.ops.linear_attention`.
"""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Shape, Tensor


def recurrence(
    formula: Component,
    x: Tensor,
    shape: Shape,
    code: Callable[[], Tensor],
    *,
    cached: tuple[Cached, ...] = (),
) -> Tensor:
    """A recurrence of ``x``, of which a ``formula`` says what it costs: ``code`` is what a library runs for it.

    All that it reads is made of ``x``, whose gradient therefore stands for each of its products in backward.
    """
    own = formula.own
    products = tuple(
        MatMul(p.name, p.factors, (x,) * value_of(p.backward), overcounted=p.overcounted) for p in own.products
    )
    leaf = Leaf(formula.name, formula.kind)
    call = Call(formula.name, (x,), shape, x.dtype, products, own.elementwise, cached=cached, leaf=leaf)
    return x.trace.composite(call._replace(saves_result=True), code)
