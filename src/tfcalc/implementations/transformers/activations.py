"""Activations as transformers' ACT2FN has them: a kernel of PyTorch's, or Python, one operation at a time."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.ledger import WIDTHS
from tfcalc.tape.value import Value

OF_RESULT = ("relu", "sigmoid", "tanh")
"""Kernels that keep what they made; the others keep what they read."""
NOTHING = ("linear", "identity")


def activation(m: Running, part: Component, x: Value) -> Value:
    """By its name."""
    kind = part.own.elementwise[0].name
    if m.habits.activations == "erf":
        return erf_gelu(m, x)
    if m.habits.activations == "megatron":
        return megatron_gelu(m, x)
    if m.habits.activations == "tanh" and kind == "gelu":
        kind = "gelu_new"
    if kind in NOTHING:
        return x
    if kind in IN_PYTHON:
        return IN_PYTHON[kind](m, x)
    return m.t.of_result(kind, x) if kind in OF_RESULT else m.t.of_input(kind, x)


def tanh_gelu(m: Running, x: Value) -> Value:
    """``0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))``."""
    t = m.t
    half = t.scaled(x)
    return t.mul(half, t.scaled(t.of_result("tanh", t.scaled(t.add(x, t.scaled(t.pow(x)))))))


def fast_gelu(m: Running, x: Value) -> Value:
    """``0.5 · x · (1 + tanh(x · 0.798 · (1 + 0.0447 · x · x)))``."""
    t = m.t
    half, scaled = t.scaled(x), t.scaled(x)
    inner = t.scaled(t.mul(t.scaled(x), x))
    return t.mul(half, t.scaled(t.of_result("tanh", t.mul(scaled, inner))))


def erf_gelu(m: Running, x: Value) -> Value:
    """``x · 0.5 · (1 + erf(x / √2))``."""
    t = m.t
    half = t.scaled(x)
    return t.mul(half, t.scaled(t.of_input("erf", t.scaled(x))))


def megatron_gelu(m: Running, x: Value) -> Value:
    """``x · 0.5 · (1 + tanh(0.798 · x · (1 + 0.0447 · x · x)))`` as a function of its own, which keeps ``x`` alone.

    It makes all steps anew in backward. Source: transformers' modeling_bloom, ``GeLUFunction``.
    """
    size = 4 * x.elements * WIDTHS[x.dtype]  # of the steps, those that are there at once, beside the result
    m.t.ledger.needed(size)
    return m.t.result("gelu", [x], x.elements, x.dtype, saves=[x], scratch=size)


def quick_gelu(m: Running, x: Value) -> Value:
    """``x · σ(1.702 · x)``."""
    return m.t.mul(x, m.t.of_result("sigmoid", m.t.scaled(x)))


def clipped_gelu(m: Running, x: Value) -> Value:
    """``clip(gelu(x), −10, 10)``."""
    return m.t.of_input("clip", m.t.of_input("gelu", x))


def squared_relu(m: Running, x: Value) -> Value:
    """``relu(x)²``."""
    return m.t.pow(m.t.of_result("relu", x))


def laplace(m: Running, x: Value) -> Value:
    """``0.5 · (1 + erf((x − μ) / (σ √2)))``."""
    return m.t.scaled(m.t.scaled(m.t.of_input("erf", m.t.scaled(m.t.scaled(x)))))


def xielu(m: Running, x: Value) -> Value:
    """``α_p x² + β x`` above 0, ``(expm1(min(x, ε)) − x) α_n + β x`` below (arXiv 2411.13010); α is in bf16."""
    t = m.t
    alphas = [t.of_input("softplus", t.parameter(1, "bfloat16", f"{t.path}.{name}")) for name in ("α_p", "α_n")]
    alphas[1] = t.scaled(alphas[1])
    above = t.add(t.mul(t.mul(x, alphas[0]), x), t.scaled(x))
    exponential = t.of_result("expm1", t.of_input("min", x))
    below = t.add(t.mul(t.add(exponential, x), alphas[1]), t.scaled(x))
    positive = Value(t.new(x.elements, "bool", "x > 0"), x.elements, "bool")
    return t.result("where", [above, below], x.elements, x.dtype, saves=[positive])


IN_PYTHON = {
    "gelu_10": clipped_gelu,
    "gelu_accurate": tanh_gelu,
    "gelu_fast": fast_gelu,
    "gelu_new": tanh_gelu,
    "gelu_python": erf_gelu,
    "gelu_python_tanh": tanh_gelu,
    "laplace": laplace,
    "quick_gelu": quick_gelu,
    "relu2": squared_relu,
    "xielu": xielu,
}
