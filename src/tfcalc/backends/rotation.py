"""Rotary positions as transformers' code has them: cos and sin for all layers, and ``rotate_half``."""

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
"""Of each what makes it: positions times frequencies, twice beside each other, their cosine, times a number."""
Key = tuple[Num | None, int, str] | None


def key(attention: Attention) -> Key:
    """What tells the angles of a layer from those of others: its window, its width and their format, or nothing."""
    rope = attention.rope
    assert rope is not None
    return (attention.window, known(turned_width(rope)) or 0, rope.angles) if rope.by_window else None


def turned_width(rope: Rope) -> Num:
    """How much of a head's width is rotated: an even number, as angles come in pairs."""
    if rope.partial:
        even: Num = 2 * ceil_div(rope.width, 2)
        return even
    return rope.width + (known(rope.width) or 0) % 2


def angles_of(rope: Rope, x: Tensor, ctx: Context) -> Angles:
    """The cosine and the sine of each position's angles."""
    width = divide(turned_width(rope), 2) if rope.halves else turned_width(rope)
    trace, own = x.trace, (ctx.stream.batch, 1) if rope.by_sequence else (1,)
    shape = (*own, ctx.stream.length - rope.behind, width)
    assert isinstance(trace, Interpreter)
    if rope.angles == "complex":
        both = trace.new(shape, "float32", "cos + i·sin")
        both.storage.home = (*trace.module, Place("rotary"))
        return both, both
    dtype = rope.angles or trace.weights_format
    cast = () if dtype == "float32" else ("_to_copy",)
    made = [trace.call(Call(name, (), shape, dtype, kernels=(*kernels, *cast))) for name, kernels in ANGLES.items()]
    for each in made:
        each.storage.home = (*trace.module, Place("rotary"))
    return made[0], made[1]


def turned(q: Tensor, k: Tensor, angles: Angles, rope: Rope) -> tuple[Tensor, Tensor]:
    """apply_rotary_pos_emb; a layer may first put cos and sin in another order (GLM's repeat_interleave)."""
    if rope.by_layer:
        cos, sin = angles
        angles = copied(cos, name="cos, interleaved"), copied(sin, name="sin, interleaved")
    if known(rope.behind):
        first, second = (split(each, [rope.behind, each.shape[2] - rope.behind], 2) for each in (q, k))
        return cat([first[0], rotated(first[1], angles, rope)], 2), cat(
            [second[0], rotated(second[1], angles, rope)], 2
        )
    return rotated(q, angles, rope), rotated(k, angles, rope)


def rotated(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    """``x·cos + rotate_half(x)·sin``; of a part of each head's width, the rest is put beside it, in new memory."""
    if rope.last:
        return _last_turned(x, angles, rope)
    if not rope.repeats:
        return _partly_turned(x, angles, rope)
    form = "" if rope.angles else x.dtype
    repeated = [copied(x.trace.to(each, form or each.dtype), name="repeated") for each in angles]
    return transpose(_partly_turned(transpose(x, 1, 2), (repeated[0], repeated[1]), rope), 1, 2)


def _partly_turned(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    width = turned_width(rope)
    if width == x.width:
        made = _turned(x, angles, rope)
        return cat([made]) if rope.copies else made
    first, rest = split(x, [width, x.width - width])
    return cat([_turned(first, angles, rope), rest])


def _last_turned(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    """The last numbers of each head, in pairs."""
    trace, given, half = x.trace, x.dtype, divide(rope.width, 2)
    cos, sin = (copied(each, (*each.shape[:-1], rope.width), "repeat_interleave") for each in angles)
    passed, last = split(x, [x.width - rope.width, rope.width])
    first, second = (part(last, 3, half) for _ in "12")
    other = reshape(stack([scaled(second, "neg"), first], (*first.shape, 2)), *last.shape)
    made = add(mul(trace.to(last, "float32"), cos), mul(trace.to(other, "float32"), sin))
    return cat([passed, trace.to(made, given)])


def _turned(x: Tensor, angles: Angles, rope: Rope) -> Tensor:
    trace, given = x.trace, x.dtype
    cos, sin = angles
    if rope.in_float32:
        x = trace.to(x, "float32")
    if rope.angles == "complex":
        made = mul(trace.to(x, "float32"), cos)
    elif rope.halves or rope.pairs:
        made = _by_halves(x, *(split(each, [divide(x.width, 2)] * 2)[0] if rope.pairs else each for each in angles))
    else:
        made = add(mul(x, cos), mul(_rotate_half(x), sin))
    return trace.to(made, given) if (rope.in_float32 or rope.angles) and not rope.repeats else made


def _by_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x₁ cos − x₂ sin`` beside ``x₂ cos + x₁ sin`` (gpt-oss)."""
    first, second = split(x, [cos.width] * 2)
    one = add(mul(first, cos), mul(second, sin))
    return cat([one, add(mul(second, cos), mul(first, sin))])


def _rotate_half(x: Tensor) -> Tensor:
    """``−x₂`` beside ``x₁``, in new memory; the gradient of each half is first as wide as both."""
    scratch = x.elements * WIDTHS[x.dtype]
    return x.trace.call(
        Call("rotate_half", (x,), x.shape, x.dtype, scratch=scratch, strides=preserved(x), kernels=("neg", "cat"))
    )
