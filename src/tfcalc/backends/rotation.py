"""Rotary positions: queries and keys turned by angles that all layers read."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.shapes import cat, split
from tfcalc.tape.call import Call
from tfcalc.tape.ledger import WIDTHS, Place
from tfcalc.tape.running import Running
from tfcalc.tape.tensor import Tensor, preserved

Angles = tuple[Tensor, Tensor]


def turned_width(attention: Attention) -> Num:
    """How much of a head's width is rotated: an even number, as angles come in pairs."""
    width = attention.rotary
    assert width is not None
    return width + (known(width) or 0) % 2


def angles_of(attention: Attention, x: Tensor, ctx: Context) -> Angles:
    """The cosine and the sine of each position's angles, for all layers of this kind."""
    trace, shape = x.trace, (1, ctx.stream.length, turned_width(attention))
    made = [trace.new(shape, trace.weights_format, name) for name in ("cos", "sin")]
    assert isinstance(trace, Running)
    for each in made:
        each.storage.home = (*trace.module, Place("rotary"))
    return made[0], made[1]


def rotated(x: Tensor, angles: Angles, attention: Attention) -> Tensor:
    """``x·cos + rotate_half(x)·sin``; of a part of each head's width, the rest is put beside it, in new memory."""
    width = turned_width(attention)
    if width == x.width:
        made = _turned(x, angles)
        return cat([made]) if attention.copies_turned else made
    first, rest = split(x, [width, x.width - width])
    return cat([_turned(first, angles), rest])


def _turned(x: Tensor, angles: Angles) -> Tensor:
    cos, sin = angles
    return add(mul(x, cos), mul(_rotate_half(x), sin))


def _rotate_half(x: Tensor) -> Tensor:
    """``−x₂`` beside ``x₁``, in new memory; the gradient of each half is first as wide as both."""
    scratch = x.elements * WIDTHS[x.dtype]
    return x.trace.call(Call("rotate_half", (x,), x.shape, x.dtype, scratch=scratch, strides=preserved(x)))
