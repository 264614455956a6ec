"""Operations on each element by itself: no weights, no matrix products."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise
from tfcalc.core.number import Num

ACTIVATIONS = {
    "relu": (1, 1),  # max(x, 0); the gradient where x > 0
    "gelu": (5, 11),  # x/√2, erf, +1, ·½, ·x; Φ(x) (4), x·φ(x) (5), their sum, times the gradient
}
"""Operations per element, forward and backward (exp and erf count as one)."""


def activation(name: str, kind: str, elements: Num) -> Component:
    """ReLU (1 operation per element) or GELU (5); no parameters, no matrix product.

    Source: Hendrycks and Gimpel 2016 (arXiv 1606.08415), section 2: GELU(x) = x·½(1 + erf(x/√2)).
    """
    forward, backward = ACTIVATIONS[kind]
    return Component(name, "activation", Cost(elementwise=(Elementwise(kind, elements, forward, backward),)))


def dropout(name: str, elements: Num) -> Component:
    """``x · mask / (1 − p)``: 2 operations per element in training, the same for its gradient; no parameters.

    Outside training it does nothing: leave the component out. Source: Srivastava et al. 2014, section 4.
    """
    return Component(name, "dropout", Cost(elementwise=(Elementwise("dropout", elements, forward=2, backward=2),)))


def residual(name: str, elements: Num) -> Component:
    """``x + f(x)``: 1 addition per element, and 1 where the two gradients meet; no parameters.

    Source: He et al. 2016 (arXiv 1512.03385), eq. 1.
    """
    return Component(name, "residual", Cost(elementwise=(Elementwise("x + f(x)", elements, forward=1, backward=1),)))
