"""Norms, activations and rotations in transformers' code, and fused ones: operations on each element or row."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.module import Context
from tfcalc.nn.positions import Rope
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.elementwise import IDENTITIES, add, mul, pointwise, power, quotient, scaled, shifted
from tfcalc.ops.rows import layer_norm, mean
from tfcalc.ops.shapes import cat, copied, part, reshape, split, stack, transpose
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import ModulePlace
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


Angles = tuple[Tensor, Tensor]
ANGLES = {"cos": ("_to_copy", "mul", "cat", "cos", "mul"), "sin": ("sin", "mul")}
"""Kernels of each: positions times frequencies, concatenated with themselves, cosine or sine, times a scale."""
Key = tuple[Num | None, int, str] | None


def key(attention: Attention) -> Key:
    """Return the key of a layer's angles among all layers': window, width and format, or None if all have the same."""
    rope = attention.rope
    assert rope is not None
    return (attention.window, known(rotated_width(rope)) or 0, rope.code.angles) if rope.code.by_window else None


def rotated_width(rope: Rope) -> Num:
    """Return the part of a head's width that is rotated: an even number, as elements are rotated in pairs."""
    if rope.partial:
        even: Num = 2 * ceil_div(rope.width, 2)
        return even
    return rope.width + (known(rope.width) or 0) % 2


def angles_of(rope: Rope, x: Tensor, ctx: Context) -> Angles:
    """Compute cosine and sine of each position's angles."""
    width = divide(rotated_width(rope), 2) if rope.code.halves else rotated_width(rope)
    trace, own = x.trace, (ctx.stream.batch, 1) if rope.code.by_sequence else (1,)
    shape = (*own, ctx.stream.length - rope.behind, width)
    assert isinstance(trace, Interpreter)
    if rope.code.angles == "complex":
        both = trace.new(shape, "float32", "cos + i·sin")
        both.storage.home = (*trace.module, ModulePlace("rotary"))
        return both, both
    dtype = rope.code.angles or trace.weights_format
    cast = () if dtype == "float32" else ("_to_copy",)
    cos, sin = (trace.call(Call(name, (), shape, dtype, kernels=(*code, *cast))) for name, code in ANGLES.items())
    cos.storage.home = sin.storage.home = (*trace.module, ModulePlace("rotary"))
    return cos, sin


def apply_rotary(q: Tensor, k: Tensor, angles: Angles, rope: Rope) -> tuple[Tensor, Tensor]:
    """apply_rotary_pos_emb; a layer may first copy cos and sin in another order (GLM's repeat_interleave)."""
    if rope.code.by_layer:
        cos, sin = angles
        angles = copied(cos, name="cos, interleaved"), copied(sin, name="sin, interleaved")
    if known(rope.behind):
        q_first, q_rest = split(q, [rope.behind, q.shape[2] - rope.behind], 2)
        k_first, k_rest = split(k, [rope.behind, k.shape[2] - rope.behind], 2)
        return cat([q_first, rotated(q_rest, angles, rope)], 2), cat([k_first, rotated(k_rest, angles, rope)], 2)
    return rotated(q, angles, rope), rotated(k, angles, rope)


def rotated(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    """``x·cos + rotate_half(x)·sin``; if only a part of each head's width is rotated, a copy with the rest."""
    if rope.code.last:
        return _rotated_last(x, angles, rope)
    if not rope.code.repeats:
        return _rotated_in_part(x, angles, rope)
    form = "" if rope.code.angles else x.dtype
    cos, sin = (copied(x.trace.to(angle, form or angle.dtype), name="repeated") for angle in angles)
    return transpose(_rotated_in_part(transpose(x, 1, 2), (cos, sin), rope), 1, 2)


def _rotated_in_part(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    width = rotated_width(rope)
    if width == x.width:
        result = _rotated_whole(x, angles, rope)
        return cat([result]) if rope.code.copies else result
    first, rest = split(x, [width, x.width - width])
    return cat([_rotated_whole(first, angles, rope), rest])


def _rotated_last(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    """Rotate the last elements of each head, in pairs of neighbours."""
    trace, given, half = x.trace, x.dtype, divide(rope.width, 2)
    cos, sin = (copied(angle, (*angle.shape[:-1], rope.width), "repeat_interleave") for angle in angles)
    passed, last = split(x, [x.width - rope.width, rope.width])
    even, odd = part(last, 3, half), part(last, 3, half)
    other = reshape(stack([scaled(odd, "neg"), even], (*even.shape, 2)), *last.shape)
    result = add(mul(trace.to(last, "float32"), cos), mul(trace.to(other, "float32"), sin))
    return cat([passed, trace.to(result, given)])


def _rotated_whole(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    trace, given = x.trace, x.dtype
    cos, sin = angles
    if rope.code.in_float32:
        x = trace.to(x, "float32")
    if rope.code.angles == "complex":
        result = mul(trace.to(x, "float32"), cos)
    elif rope.code.pairs:
        half = divide(x.width, 2)
        result = _by_halves(x, split(cos, [half, half])[0], split(sin, [half, half])[0])
    elif rope.code.halves:
        result = _by_halves(x, cos, sin)
    else:
        result = add(mul(x, cos), mul(_rotate_half(x), sin))
    return trace.to(result, given) if (rope.code.in_float32 or rope.code.angles) and not rope.code.repeats else result


def _by_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x₁ cos − x₂ sin`` beside ``x₂ cos + x₁ sin`` (gpt-oss)."""
    first, second = split(x, [cos.width] * 2)
    rotated_first = add(mul(first, cos), mul(second, sin))
    return cat([rotated_first, add(mul(second, cos), mul(first, sin))])


def _rotate_half(x: Tensor) -> Tensor:
    """``−x₂`` beside ``x₁``, in new memory; the gradient of each half is first as wide as both."""
    scratch = x.elements * WIDTHS[x.dtype]
    return x.trace.call(
        Call("rotate_half", (x,), x.shape, x.dtype, scratch=scratch, strides=preserved(x), kernels=("neg", "cat"))
    )
