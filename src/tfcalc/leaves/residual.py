"""The addition of a sub-layer's output to its input."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise
from tfcalc.core.number import Num


def residual(name: str, elements: Num) -> Component:
    """``x + f(x)``: 1 addition per element, and 1 where the two gradients meet; no parameters.

    Source: He et al. 2016 (arXiv 1512.03385), eq. 1.
    """
    return Component(name, "residual", Cost(elementwise=(Elementwise("x + f(x)", elements, forward=1, backward=1),)))
