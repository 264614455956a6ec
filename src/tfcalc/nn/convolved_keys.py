"""Compressed convolutional attention: queries and keys of few heads, mixed over a few tokens by two convolutions."""

from __future__ import annotations

from tfcalc.core.cost import Cached
from tfcalc.core.number import Num, floor_div
from tfcalc.core.traced import value_of
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import GroupedConvolution
from tfcalc.nn.every_expert import Borrowed
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.keeping import CONVOLUTION, TOKEN_BEFORE, by_sequence
from tfcalc.ops.rows import row_norm
from tfcalc.ops.shapes import cat, copied, pad, part, reshape, split, transpose
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


class ConvolvedKeys(Attention):
    """Queries and keys pass a convolution of each channel (``depthwise``), then one of each head (``by_head``).

    Beside it each query head is added to its key head's, and their mean to the keys. Half of each value is made of the
    token before (``delayed``). Keys have a ``temperature`` for each head; queries and keys are brought to one length.

    Source: Figliolia et al. 2025 (CCA, arXiv 2510.04476), section 3; transformers' ZayaAttention.
    """

    delayed: Linear | None = None
    depthwise: GroupedConvolution | None = None
    by_head: GroupedConvolution | None = None
    temperature: Stored | None = None

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, head by head."""
        rows, d = x.shape[:2], self.key_dim
        maps = [each(x) for each in self.inward]
        q, k = self._mixed_over_time(maps[0], maps[1], ctx)
        v = reshape(cat([maps[2], self._of_the_token_before(x, ctx)]), *rows, self.kv_heads, d)
        q, k = _of_one_length(q), _of_one_length(k)
        assert self.temperature is not None
        k = mul(k, reshape(self.temperature.weight(x.trace), self.kv_heads, 1))
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)

    def _mixed_over_time(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """What two convolutions make of both, which look back alone, and what is added to it."""
        assert self.depthwise is not None
        assert self.by_head is not None
        (*rows, wide), each, grouped = q.shape, self.depthwise.kernel, self.by_head.kernel
        length, narrow_ = rows[1], k.width
        both = transpose(cat([q, k]), 1, 2)
        both = pad(both, 2, length + each + grouped - 2) if q.trace.lowers else both
        both = self.by_head(self.depthwise(both, length + grouped - 1), length)
        mixed_q, mixed_k = split(transpose(both, 1, 2), [wide, narrow_])
        q, k = self._beside(q, k)
        return add(reshape(mixed_q, *q.shape), q), add(reshape(mixed_k, *k.shape), k)

    def _beside(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Half the sum of each query head and its key head, and the mean of these sums for each key head."""
        rows, a, g, d = q.shape[:2], self.heads, self.kv_heads, self.key_dim
        q, k = reshape(q, *rows, a, d), transpose(reshape(k, *rows, g, d), 1, 2)
        if not k.trace.lowers or value_of(g) != value_of(a):
            k = copied(k, (rows[0], a, rows[1], d), "repeat_kv")
        q = scaled(add(q, transpose(k, 1, 2)))
        return q, q.trace.call(Call("mean", (q,), (*rows, g, d), q.dtype))

    def _of_the_token_before(self, x: Tensor, ctx: Context) -> Tensor:
        """Half of each value; the first has none before it: zeros are mapped in its place, unless one is cached."""
        assert self.delayed is not None
        made, (batch, length, width) = self.delayed(x), x.shape
        if ctx.stream.cached is not None:
            return made
        zeros = x.trace.new((batch, 1, width), x.dtype, "zeros")
        if not x.trace.lowers:
            delayed = self.delayed
            Borrowed(f"{delayed.name}[zeros]", delayed.fan_in, delayed.fan_out, delayed.name)(zeros)
            return made
        return cat([self.delayed(zeros), part(made, 1, length - 1)], 1)

    def _kept(self, ctx: Context) -> tuple[Cached, ...]:
        """Keys and values of tokens, the convolutions' last inputs, and what the last token makes for the next."""
        assert self.depthwise is not None
        assert self.by_head is not None
        stream, each, grouped = ctx.stream, self.depthwise.kernel, self.by_head.kernel
        half: Num = floor_div(self.kv_heads * self.key_dim, 2)
        return (
            *super()._kept(ctx),
            *by_sequence(stream, CONVOLUTION, self.depthwise.channels, each + grouped - 2),
            *by_sequence(stream, TOKEN_BEFORE, half, 1),
        )


def _of_one_length(x: Tensor) -> Tensor:
    """Times √d over its length, which is no smaller than a least number."""
    if not x.trace.lowers:
        return x
    length = pointwise("clamp", row_norm(x))
    return mul(x, scaled(pointwise("reciprocal", x.trace.upper(length))))
