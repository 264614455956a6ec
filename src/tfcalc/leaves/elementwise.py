"""Operations on each element by itself: no weights, no matrix products."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel, nearest
from tfcalc.printable import quoted

ACTIVATIONS = {
    "relu": (1, 1),  # max(x, 0); the gradient where x > 0
    "gelu": (5, 11),  # x/√2, erf, +1, ·½, ·x; Φ(x) (4), x·φ(x) (5), their sum, times the gradient
}
"""Operations per element, forward and backward (exp and erf count as one)."""

SIGMOID = (3, 3)  # exp(-x), +1, 1/; 1 - y, ·y, times the gradient
SILU = (4, 7)  # the sigmoid, ·x; σ (3), 1 - σ, ·x, +1, ·σ ... times the gradient
TANH_GELU = (8, 15)  # x² and x³ (2), ·c, +x, ·√(2/π), tanh, +1, ·½x as one pass each
FURTHER = {
    "relu2": (2, 3),
    "relu6": (2, 2),
    "leaky_relu": (2, 2),
    "prelu": (2, 2),
    "sigmoid": SIGMOID,
    "tanh": (1, 3),
    "silu": SILU,
    "swish": SILU,
    "quick_gelu": (5, 8),
    "gelu_new": TANH_GELU,
    "gelu_fast": TANH_GELU,
    "gelu_accurate": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "gelu_python": (5, 11),
    "gelu_python_tanh": TANH_GELU,
    "gelu_10": (7, 13),
    "clipped_gelu": (7, 13),
    "hardswish": (4, 5),
    "mish": (5, 12),
    "softplus": (3, 4),
    "laplace": (5, 9),
    "linear": (0, 0),
    "identity": (0, 0),
    "xielu": (8, 14),
}
"""Those that only config.json files name."""


def activation(name: str, kind: str, elements: Num) -> Component:
    """So many operations per element (ReLU 1, GELU 5, …); no parameters, no matrix product.

    Source: torch.nn.functional and transformers.activations; GELU: Hendrycks and Gimpel 2016 (arXiv 1606.08415).
    """
    known = ACTIVATIONS | FURTHER
    if kind not in known:
        raise InvalidModel(f"activation {quoted(kind)} is not known", nearest(kind, known))
    forward, backward = known[kind]
    return Component(name, "activation", Cost(elementwise=(Elementwise(kind, elements, forward, backward),)))


def dropout(name: str, elements: Num) -> Component:
    """``x · mask / (1 − p)``: 2 operations per element in training, the same for its gradient; no parameters.

    Outside training it does nothing: leave the component out. Source: Srivastava et al. 2014, section 4.
    """
    return Component(name, "dropout", Cost(elementwise=(Elementwise("dropout", elements, forward=2, backward=2),)))


def rotary(name: str, vectors: Num, width: Num) -> Component:
    """``x·cos + rotated(x)·sin``: 2 multiplications and 1 addition per element, the same for its gradient.

    Of each of ``vectors``, a head's query or key, ``width`` elements are rotated.

    The angles are those of positions, and made once for all layers. Source: Su et al. 2021 (RoFormer, arXiv
    2104.09864), eq. 34.
    """
    work = Elementwise("rotate", vectors * width, forward=3, backward=3, width=width)
    return Component(name, "rotary", Cost(elementwise=(work,)))


def residual(name: str, elements: Num) -> Component:
    """``x + f(x)``: 1 addition per element, and 1 where the two gradients meet; no parameters.

    Source: He et al. 2016 (arXiv 1512.03385), eq. 1.
    """
    return Component(name, "residual", Cost(elementwise=(Elementwise("x + f(x)", elements, forward=1, backward=1),)))
