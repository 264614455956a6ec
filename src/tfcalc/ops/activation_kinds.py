"""Kinds of activations: operations per element, forward and backward."""

from __future__ import annotations

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
"""Those that only config.json files name."""
