"""Elementwise operations per element, forward and backward, of activations, norms and softmax."""

from typing import NamedTuple

SOFTMAX = (5, 4)  # max, minus it, exp, sum, divide; g·p, its sum, minus it, times p
SCALE = (1, 1)  # times 1/√d
CROSS_ENTROPY = (5, 2)  # max, minus it, exp, sum, minus its logarithm; exp, times the gradient

ACTIVATIONS = {
    "relu": (1, 1),  # max(x, 0); the gradient where x > 0
    "gelu": (5, 11),  # x/√2, erf, +1, ·½, ·x; Φ(x) (4), x·φ(x) (5), their sum, times the gradient
}
"""Operations per element, forward and backward (exp and erf count as one)."""

SIGMOID = (3, 3)  # exp(-x), +1, 1/; 1 - y, ·y, times the gradient
SILU = (4, 7)  # the sigmoid, ·x; σ (3), 1 - σ, ·x, +1, ·σ ... times the gradient
TANH_GELU = (8, 15)  # x² and x³ (2), ·c, +x, ·√(2/π), tanh, +1, ·½x as one pass each
FURTHER_ACTIVATIONS = {
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
"""Activations that only config.json files name."""


class NormKind(NamedTuple):
    """Trained vectors of a norm, and its operations per element, forward and backward."""

    weights: tuple[str, ...]
    forward: int
    backward: int


KEYS = {"γ": "weight", "β": "bias"}
"""Names of these vectors in a checkpoint."""

NORMS = {
    # mean (+), minus it, square, sum, times 1/std, times γ, plus β;
    # backward: g·γ, x̂ (2), its two row means (3), dx (4), dγ (2), dβ (1)
    "layernorm": NormKind(("γ", "β"), 7, 13),
    "layernorm-no-bias": NormKind(("γ",), 6, 12),
    "layernorm-plain": NormKind((), 5, 9),
    # square, sum, times 1/rms, times γ; backward: g·γ, x̂, its row mean (2), dx (3), dγ (2)
    "rmsnorm": NormKind(("γ",), 4, 9),
}
"""Norms that ``--norm`` names."""

FURTHER_NORMS = {
    # as above, without what the trained vectors cost
    "rmsnorm-plain": NormKind((), 3, 6),
    "rmsnorm-bias": NormKind(("γ", "β"), 5, 10),
    # times γ, plus β (MobileBERT, arXiv 2004.02984, eq. 1); backward: g·γ, dγ (2), dβ
    "affine": NormKind(("γ", "β"), 2, 4),
}
"""Norms that only published models have."""
