"""Norms in libraries' code: one kernel, or Python code of several."""

from __future__ import annotations

from tfcalc.ops.elementwise import add, mul, pointwise, power, quotient, shifted
from tfcalc.ops.rows import layer_norm, mean
from tfcalc.ops.shapes import cat
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Call, Tensor


def llama_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """LlamaRMSNorm: a copy in fp32 times its 1/rms, cast back to the input's format, times the weight."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    variance = mean(power(x))
    x = mul(x, _root(variance))
    lower = trace.to(x, given)  # not assigned to ``x``, which stays live in fp32 until the function returns
    return lower if weight is None else mul(lower, weight)


def gemma_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """GemmaRMSNorm: in fp32, times 1 + weight, a new tensor each time; then cast back."""
    trace = x.trace
    normed = over_rms(trace.to(x, "float32"))
    if weight is not None:
        normed = mul(normed, shifted(trace.to(weight, "float32"), "1 + weight"))
    return trace.to(normed, x.dtype)


def over_rms(x: Tensor) -> Tensor:
    """``x · rsqrt(mean(x²) + ε)``."""
    return mul(x, _root(mean(power(x))))


def _root(variance: Tensor) -> Tensor:
    """``rsqrt(variance + ε)``, which autocast runs in fp32."""
    return pointwise("rsqrt", variance.trace.upper(shifted(variance, "+ ε")))


def t5_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """T5LayerNorm: squares of a copy in fp32, but it is ``x`` itself that is multiplied with 1/rms."""
    trace = x.trace
    variance = mean(power(trace.to(x, "float32")))
    x = trace.to(mul(x, _root(variance)), trace.weights_format)
    return x if weight is None else mul(x, weight)


def olmo_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """Olmo2RMSNorm: multiplied with the weight in fp32, and only then cast back."""
    given = x.dtype
    x = over_rms(x.trace.to(x, "float32"))
    return x.trace.to(x if weight is None else mul(weight, x), given)


def helium_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """HeliumRMSNorm: Olmo2RMSNorm with a copy of the weight in fp32."""
    return olmo_norm(x, weight if weight is None else x.trace.to(weight, "float32"))


def gemma4_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """Gemma4RMSNorm: 1/rms is a ``pow``, which saves its input; multiplied with a copy of the weight in fp32."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    x = mul(x, power(shifted(mean(power(x)), "+ ε")))
    return trace.to(x if weight is None else mul(x, trace.to(weight, "float32")), given)


RMSNORMS = {
    "": llama_norm,
    "gemma": gemma_norm,
    "gemma4": gemma4_norm,
    "helium": helium_norm,
    "olmo": olmo_norm,
    "t5": t5_norm,
}
"""Functions by the ``code`` of a norm."""


def fused_rms_norm(x: Tensor, weight: Tensor | None) -> Tensor:
    """RMSNorm as one kernel: saves its input in its own format, and 1/rms of each row in fp32.

    Source: Liger-Kernel's LigerRMSNormFunction (arXiv 2410.10989, section 3.1); torch's ``_fused_rms_norm``.
    """
    deviation = x.trace.new((*x.shape[:-1], 1), "float32", "1/rms")
    return x.trace.call(Call("rms_norm", (x, weight), x.shape, x.dtype, saves=(x, deviation)))


def in_float32(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """OlmoLayerNorm: the kernel reads a copy in fp32, and its result is cast back."""
    return x.trace.to(layer_norm(x.trace.to(x, "float32"), weight, bias), x.dtype)


def plus_one(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """NemotronLayerNorm1P: weight + 1 is a new tensor, which is saved; autocast does not run the kernel in fp32."""
    trace = x.trace
    assert isinstance(trace, Interpreter)
    assert weight is not None
    weight = trace.lower(shifted(weight, "weight + 1"))
    x, bias = trace.lower(x), bias if bias is None else trace.lower(bias)
    with trace.no_autocast():
        return layer_norm(x, weight, bias)


def in_python(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """CohereLayerNorm: computes deviations from the mean two times; weight and product are in fp32."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    average = mean(x)
    variance = mean(power(add(x, average)))
    x = mul(add(x, average), _root(variance))
    if weight is not None:
        x = mul(trace.to(weight, "float32"), x)
    if bias is not None:
        x = add(trace.to(bias, "float32"), x)
    return trace.to(x, given)


def head_by_head(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """StableLmLayerNormPerHead: one kernel per head, whose results are concatenated."""
    return cat([layer_norm(x, weight, bias)])


def times_root(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """xLSTMMultiHeadLayerNorm: deviations from the mean times 1/std, in fp32; the variance is a kernel of its own."""
    trace, given = x.trace, x.dtype
    x = trace.to(x, "float32")
    y = add(x, mean(x))
    variance = trace.call(Call("var", (x,), (*x.shape[:-1], 1), x.dtype, saves=(x,)))
    x = trace.to(mul(y, _root(variance)), given)
    x = x if weight is None else mul(x, weight)
    return x if bias is None else add(x, bias)


def quotient_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """IntLayerNorm without quantization: deviations from the mean, divided by the root of their mean square."""
    y = add(x, mean(x))
    x = quotient(y, pointwise("sqrt", shifted(mean(power(y)), "+ ε")))
    x = x if weight is None else mul(x, weight)
    return x if bias is None else add(x, bias)


def deviations_twice(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """DebertaLayerNorm: computes deviations in fp32 two times, and divides them by the root of their mean square."""
    given, x = x.dtype, x.trace.to(x, "float32")
    average = mean(x)
    variance = mean(power(add(x, average)))
    y = quotient(add(x, average), pointwise("sqrt", shifted(variance, "+ ε")))
    y = x.trace.to(y, given)
    y = y if weight is None else mul(weight, y)
    return y if bias is None else add(y, bias)


LAYERNORMS = {
    "": layer_norm,
    "deviations twice": deviations_twice,
    "float32": in_float32,
    "head by head": head_by_head,
    "plus one": plus_one,
    "python": in_python,
    "quotient": quotient_norm,
    "times root": times_root,
}
"""Functions by the ``code`` of a norm."""


def normed(form: str, code: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Run a norm by its form and code: LayerNorm is one kernel in most families, an RMSNorm Python code."""
    if form.startswith("layernorm"):
        return LAYERNORMS[code](x, weight, bias)
    if form == "affine":  # MobileBERT's NoNorm
        assert weight is not None
        assert bias is not None
        return add(mul(x, weight), bias)
    y = RMSNORMS[code](x, weight)
    return y if bias is None else add(y, bias)
