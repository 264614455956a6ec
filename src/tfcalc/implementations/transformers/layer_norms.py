"""LayerNorms: PyTorch's kernel, and what families write around it or in its place."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.implementations.transformers.running import Running
from tfcalc.tape.value import Value


def kernel(m: Running, x: Value, rows: Num, weight: Value | None, bias: Value | None) -> Value:
    """torch.nn.LayerNorm."""
    return m.t.layer_norm(x, rows, weight, bias)


def in_float32(m: Running, x: Value, rows: Num, weight: Value | None, bias: Value | None) -> Value:
    """OlmoLayerNorm: the kernel reads a copy in fp32, and what it makes is brought back."""
    return m.t.to(m.t.layer_norm(m.t.to(x, "float32"), rows, weight, bias), x.dtype)


def plus_one(m: Running, x: Value, rows: Num, weight: Value | None, bias: Value | None) -> Value:
    """NemotronLayerNorm1P: the weight plus 1 is made anew, and kept; autocast does not run the kernel in fp32."""
    t = m.t
    assert weight is not None
    weight = t.lower(t.scaled(weight, "weight + 1"))
    x, bias = t.lower(x), bias if bias is None else t.lower(bias)
    with t.no_autocast():
        return t.layer_norm(x, rows, weight, bias)


def in_python(m: Running, x: Value, rows: Num, weight: Value | None, bias: Value | None) -> Value:
    """CohereLayerNorm: deviations from the mean are made twice; weight and product are in fp32."""
    t = m.t
    given, x = x.dtype, t.to(x, "float32")
    mean = t.mean(x, rows)
    variance = t.mean(t.pow(t.add(x, mean)), rows)
    x = t.mul(t.add(x, mean), t.of_result("rsqrt", t.upper(t.scaled(variance))))
    if weight is not None:
        x = t.mul(t.to(weight, "float32"), x, x.elements)
    if bias is not None:
        x = t.add(t.to(bias, "float32"), x, x.elements)
    return t.to(x, given)


def deberta_norm(m: Running, x: Value, rows: Num, weight: Value | None, bias: Value | None) -> Value:
    """DebertaLayerNorm: deviations from the mean are made twice, and divided; what comes after is in the old format."""
    t, given = m.t, x.dtype
    x = t.to(x, "float32")
    mean = t.mean(x, rows)
    variance = t.mean(t.pow(t.add(x, mean)), rows)
    deviation = t.of_result("sqrt", t.scaled(variance))
    apart = t.add(x, mean)
    x = t.to(t.result("div", [apart, deviation], x.elements, x.dtype, saves=[apart, deviation]), given)
    assert weight is not None
    assert bias is not None
    return t.add(t.mul(weight, x, x.elements), bias, x.elements)


LAYERNORMS = {
    "deberta": deberta_norm,
    "kernel": kernel,
    "float32": in_float32,
    "plus one": plus_one,
    "python": in_python,
}
"""By the habit of a family."""
