"""Attention whose queries and keys are kept under a length, with a sink for each token, and near convolutions."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.near import DistanceAttention
from tfcalc.ops.elementwise import activation, add, mul, pointwise, scaled, shifted
from tfcalc.ops.keeping import CONVOLUTION, FP32, by_sequence
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.rows import mean, row_norm
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import pad, reshape, transpose, unsqueeze
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


class ClippedAttention(DistanceAttention):
    """Queries (times a trained ``scale``), keys, and how profiles are mixed are clipped to a length; values are normed.

    A map makes the ``sink`` of each token and head. What the heads made is multiplied by the sigmoid of a ``gate``.

    Source: transformers' Inkling2SlidingAttention.
    """

    scale: Stored | None = None
    mix_scale: Stored | None = None
    sink: Linear | None = None

    def forward(self, x: Tensor, ctx: Context, keys: Tensor | None = None, values: Tensor | None = None) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other; ``keys`` and ``values`` are made of others."""
        assert self.sink is not None
        assert self.gate is not None
        trace, rows, given = x.trace, x.shape[:2], [x, keys or x, values or x]
        q, *others = (each(one) for each, one in zip(self.inward, given, strict=True))
        k, v = (self._near(place, each, given[place + 1], ctx) for place, each in enumerate(others))
        gate, sinks = self.gate(x), self.sink(x)
        places = trace.new((1, rows[1], 1, 1), "float32", "temperatures") if self.by_place and trace.lowers else None
        q = self._placed(clipped(reshape(q, *rows, self.heads, self.key_dim), self.scale), places)
        k = clipped(reshape(k, *rows, self.kv_heads, self.key_dim), None)
        v = _normed(reshape(v, *rows, self.kv_heads, self.value_dim))
        bias = self._distances(x, ctx._replace(places=places))
        sinks = unsqueeze(transpose(sinks, 1, 2), -1)
        ctx = ctx._replace(bias=bias, sinks=sinks)
        made = self.but(gate=None).mixed([transpose(each, 1, 2) for each in (q, k, v)], ctx)
        gate = trace.to(gate, "float32")
        gate = activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")
        return self.output(trace.to(mul(trace.to(made, "float32"), gate), made.dtype))

    def _mixes(self, x: Tensor, ctx: Context) -> Tensor:
        return self._placed(clipped(super()._mixes(x, ctx), self.mix_scale), ctx.places)

    def _placed(self, x: Tensor, places: Tensor | None) -> Tensor:
        return x if places is None else x.trace.to(mul(x.trace.to(x, "float32"), places), x.dtype)

    def _near(self, place: int, made: Tensor, source: Tensor, ctx: Context) -> Tensor:
        """Keys (0) or values (1) together with those of the tokens before."""
        return self.convolutions[place](made, ctx)


class TokenConvolved(ClippedAttention):
    """The same with convolutions to whose weights (``static``) each token adds its own, one for each head (``taps``).

    Source: transformers' Inkling2FullAttention.
    """

    taps: tuple[Linear, ...] = ()
    static: tuple[Stored, ...] = ()
    reach: Num = 1

    def _near(self, place: int, made: Tensor, source: Tensor, ctx: Context) -> Tensor:
        name, width = self.static[place].name.rpartition(".")[0], made.width
        added = self.taps[place](source)
        formula = gated_sum(f"{name}.sum", "Σ (w + w(x))·x", made.elements * self.reach)
        cached = by_sequence(ctx.stream, CONVOLUTION, width, self.reach, FP32)
        return recurrence(formula, made, made.shape, lambda: self._summed(made, added, place), cached=cached)

    def _summed(self, x: Tensor, added: Tensor, place: int) -> Tensor:
        """Windows of the last tokens, in memory of their own, times weights for each token."""
        trace, given, (b, l, c), g, n = x.trace, x.dtype, x.shape, self.kv_heads, self.reach
        static = transpose(trace.to(self.static[place].weight(trace), "float32"), 0, 1)
        weights = reshape(trace.to(added, "float32"), b, l, g, 1, n)
        weights = add(reshape(static, g, self.key_dim, n), weights)
        x = trace.to(x, "float32")
        before = pad(transpose(x, 1, 2), 2, l + n - 1)
        windows = trace.call(Call("flip", (before,), (b, c, l, n), "float32"))
        made = mul(reshape(transpose(windows, 1, 2), b, l, g, self.key_dim, n), weights)
        made = trace.call(Call("sum", (made,), (b, l, c), "float32"))
        return trace.to(scaled(add(made, x), "div"), given)


def clipped(x: Tensor, scale: Stored | None) -> Tensor:
    """In fp32, times a ``scale``, if there is one, and a number that makes it no longer than a threshold."""
    trace, given = x.trace, x.dtype
    if not trace.lowers:
        return x
    x = trace.to(x, "float32")
    x = x if scale is None else mul(x, trace.to(scale.weight(trace), "float32"))
    times = scaled(pointwise("reciprocal", trace.upper(shifted(row_norm(x), "+ ε"))))
    return trace.to(mul(x, pointwise("clamp", times)), given)


def _normed(x: Tensor) -> Tensor:
    """Over its root mean square, in fp32."""
    trace, given = x.trace, x.dtype
    if not trace.lowers:
        return x
    x = trace.to(x, "float32")
    root = mean(trace.call(Call("square", (x,), x.shape, x.dtype, saves=(x,))))
    return trace.to(mul(x, pointwise("rsqrt", trace.upper(shifted(root, "+ ε")))), given)
