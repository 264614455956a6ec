"""Activations of transformers' ACT2FN: one kernel of PyTorch, or Python code of several."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.ops.elementwise import IDENTITIES, add, mul, pointwise, power, scaled, shifted
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Call, Tensor, preserved


def activation(kind: str, x: Tensor) -> Tensor:
    """Apply an activation by its name in config.json."""
    if kind in IDENTITIES:
        return x
    return IN_PYTHON[kind](x) if kind in IN_PYTHON else pointwise(kind, x)


def tanh_gelu(x: Tensor) -> Tensor:
    """``0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))``."""
    half = scaled(x)
    return mul(half, shifted(pointwise("tanh", scaled(add(x, scaled(power(x))))), "1 + tanh"))


def fast_gelu(x: Tensor) -> Tensor:
    """``0.5 · x · (1 + tanh(x · 0.798 · (1 + 0.0447 · x · x)))``."""
    half, times = scaled(x), scaled(x)
    inner = shifted(mul(scaled(x), x), "1 + x²")
    return mul(half, shifted(pointwise("tanh", mul(times, inner)), "1 + tanh"))


def erf_gelu(x: Tensor) -> Tensor:
    """``x · 0.5 · (1 + erf(x / √2))``."""
    half = scaled(x)
    return mul(half, shifted(pointwise("erf", scaled(x, "div")), "1 + erf"))


def quick_gelu(x: Tensor) -> Tensor:
    """``x · σ(1.702 · x)``."""
    return mul(x, pointwise("sigmoid", scaled(x)))


def clipped_gelu(x: Tensor) -> Tensor:
    """``clip(gelu(x), −10, 10)``."""
    return pointwise("clip", pointwise("gelu", x))


def root_softplus(x: Tensor) -> Tensor:
    """``√softplus(x)``."""
    return pointwise("sqrt", pointwise("softplus", x.trace.upper(x)))


def squared_relu(x: Tensor) -> Tensor:
    """``relu(x)²``."""
    return power(pointwise("relu", x))


def bloom_gelu(x: Tensor) -> Tensor:
    """``x · 0.5 · (1 + tanh(0.798 · x · (1 + 0.0447 · x · x)))`` as a torch.autograd.Function that saves ``x`` alone.

    It recomputes all steps in backward. Source: transformers' modeling_bloom, ``GeLUFunction``.
    """
    steps = 4 * x.elements * WIDTHS[x.dtype]  # intermediate tensors that are live at once, beside the result
    x.trace.needed(steps)
    return x.trace.call(Call("gelu", (x,), x.shape, x.dtype, saves=(x,), scratch=steps, strides=preserved(x)))


def laplace(x: Tensor) -> Tensor:
    """``0.5 · (1 + erf((x − μ) / (σ √2)))``."""
    return scaled(shifted(pointwise("erf", scaled(shifted(x, "x − μ"), "div")), "1 + erf"))


def xielu(x: Tensor) -> Tensor:
    """``α_p x² + β x`` above 0, ``(expm1(min(x, ε)) − x) α_n + β x`` below (arXiv 2411.13010); α is in bf16."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    alpha_p, alpha_n = (pointwise("softplus", trace.scalar(name, "bfloat16")) for name in ("α_p", "α_n"))
    alpha_n = scaled(alpha_n)
    above = add(mul(mul(x, alpha_p), x), scaled(x))
    exponential = pointwise("expm1", pointwise("min", x))
    below = add(mul(add(exponential, x), alpha_n), scaled(x))
    positive = trace.new(x.shape, "bool", "x > 0")
    return trace.call(Call("where", (above, below), x.shape, x.dtype, saves=(positive,)))


IN_PYTHON: dict[str, Callable[[Tensor], Tensor]] = {
    "bloom": bloom_gelu,
    "gelu_10": clipped_gelu,
    "gelu_accurate": tanh_gelu,
    "gelu_fast": fast_gelu,
    "gelu_new": tanh_gelu,
    "gelu_python": erf_gelu,
    "gelu_python_tanh": tanh_gelu,
    "laplace": laplace,
    "quick_gelu": quick_gelu,
    "relu2": squared_relu,
    "sqrtsoftplus": root_softplus,
    "xielu": xielu,
}
