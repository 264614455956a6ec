"""Random zeroing of elements, in training."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise
from tfcalc.core.number import Num


def dropout(name: str, elements: Num) -> Component:
    """``x · mask / (1 − p)``: 2 operations per element in training, the same for its gradient; no parameters.

    Outside training it does nothing: leave the component out. Source: Srivastava et al. 2014, section 4.
    """
    return Component(name, "dropout", Cost(elementwise=(Elementwise("dropout", elements, forward=2, backward=2),)))
