"""Sliding window attention of transformers' Longformer, by overlapping pieces."""

from __future__ import annotations

from tfcalc.core.number import Num, floor_div
from tfcalc.nn.module import Context
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import dropout, filled, scaled
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import copied, pad, reshape, transpose
from tfcalc.tape.tensor import Call, Shape, Strides, Tensor
from tfcalc.zoo.blocks.blocked_attention import SlidingAttention


def sliding(mixer: SlidingAttention, ctx: Context, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend to ``half`` a window on each side; queries, keys and values of b × a × l × d.

    Source: transformers' LongformerSelfAttention, without global tokens.
    """
    (b, a, length, d), half = q.shape, mixer.window // 2
    heads, pieces = b * a, floor_div(length, half)
    q, k, v = (reshape(x, heads, length, d) for x in (scaled(q), k, v))
    p = _weights(_scores(q, k, half, pieces, (b, a)), mixer, ctx)
    p = reshape(transpose(p, 1, 2), heads, pieces, half, 2 * half + 1)
    p = _shifted(copied(p, (heads, pieces, half, 3 * half + 2), "pad"), (heads, pieces, half, 3 * half))
    values = _overlapping(pad(v, 1, length + 2 * half), pieces, 3 * half, half)
    return reshape(einsum("bcwd,bcdh->bcwh", p, values), b, a, length, d)


def _scores(q: Tensor, k: Tensor, half: int, pieces: Num, heads: tuple[Num, Num]) -> Tensor:
    """Compute scores of pairs of neighbouring pieces, then copy those within the window: b × l × a × (w + 1)."""
    (b, a), length, window = heads, q.shape[1], 2 * half
    q, k = (_overlapping(x, pieces - 1, window, half) for x in (q, k))
    both = einsum("bcxd,bcyd->bcxy", q, k)
    both = copied(both, (b * a, pieces - 1, window + 1, window), "pad")
    near = copied(both, (b * a, pieces, half, window + 1), "copy_")
    return _within(transpose(reshape(near, b, a, length, window + 1), 1, 2), half)


def _within(p: Tensor, half: int) -> Tensor:
    """Mask scores before the first token and after the last in place: saves the masks of both ends."""
    trace, (b, _, a, _) = p.trace, p.shape
    ends = tuple(trace.new((b, half, a, half + 1), "bool", "outside") for _ in range(2))
    call = Call("where", (p,), p.shape, p.dtype, saves=ends, shares=p.storage, strides=p.strides)
    return trace.call(call)


def _weights(p: Tensor, mixer: SlidingAttention, ctx: Context) -> Tensor:
    kind, p = p.dtype, softmax(p, "float32")
    if ctx.filled is not None and ctx.filled.there is not None:
        p = filled(p, ctx.filled.there)
    p = p.trace.to(p, kind)
    return dropout(p, "attend_dropout") if mixer.dropout and ctx.drops else p


def _overlapping(x: Tensor, count: Num, size: int, step: int) -> Tensor:
    """Return ``count`` overlapping pieces of b × l × d, each ``step`` after the one before: a view."""
    strides = None if x.strides is None else (x.strides[0], step * x.strides[1], x.strides[1], x.strides[2])
    return _strided(x, (x.shape[0], count, size, x.shape[2]), strides)


def _shifted(x: Tensor, shape: Shape) -> Tensor:
    """Shift each row by one place, so that columns become diagonals: a view."""
    strides = None if x.strides is None else (*x.strides[:2], x.strides[2] - 1, x.strides[3])
    return _strided(x, shape, strides)


def _strided(x: Tensor, shape: Shape, strides: Strides) -> Tensor:
    call = Call("as_strided", (x,), shape, x.dtype, shares=x.storage, strides=strides, kernels=())
    return x.trace.call(call)
