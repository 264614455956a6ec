"""Rotary embeddings in transformers' code: cos and sin for all layers, and ``rotate_half``."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.nn.positions import Rope
from tfcalc.ops.elementwise import add, mul, scaled
from tfcalc.ops.shapes import cat, copied, part, reshape, split, stack, transpose
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import WIDTHS, Place
from tfcalc.tape.tensor import Tensor, preserved

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
        both.storage.home = (*trace.module, Place("rotary"))
        return both, both
    dtype = rope.code.angles or trace.weights_format
    cast = () if dtype == "float32" else ("_to_copy",)
    cos, sin = (trace.call(Call(name, (), shape, dtype, kernels=(*code, *cast))) for name, code in ANGLES.items())
    cos.storage.home = sin.storage.home = (*trace.module, Place("rotary"))
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
