"""What looks a few tokens back beside attention: short convolutions added to what they read, and trained distances."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.layers import PreNorm
from tfcalc.ops.elementwise import add, filled, mul, residual, scaled
from tfcalc.ops.select import gathered
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor


class AddedConvolution(ShortConvolution):
    """``x + conv(x)`` of each channel over its last tokens, in fp32; the sum may be divided by a number (``scales``).

    Source: transformers' InklingShortConvolution, Inkling2ShortConvolution.
    """

    scales: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × c."""
        trace, given = x.trace, x.dtype
        x = trace.to(x, "float32")
        made = super().forward(trace.to(transpose(x, 1, 2), trace.weights_format), ctx)
        made = add(transpose(trace.to(made, "float32"), 1, 2), x)
        return trace.to(scaled(made, "div") if self.scales else made, given)


class ConvolvedLayer(PreNorm):
    """``x + conv(f(norm(x)))`` for each sub-layer f (Inkling)."""

    convolutions: tuple[AddedConvolution, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for (norm, sub), convolution in zip(self.running(ctx), self.convolutions, strict=True):
            x = residual(x, convolution(sub(norm(x, ctx), ctx), ctx), sub.name)
        return x


class DistanceAttention(Attention):
    """Keys and values pass short ``convolutions``; each head mixes ``profiles`` of numbers for each distance.

    A map of the token makes how (``mixes``), and another numbers for as many distances as there are profiles' columns,
    which are added to its scores. Queries and these numbers may have a factor for each place (``by_place``), in fp32.

    Source: transformers' InklingAttention.
    """

    convolutions: tuple[AddedConvolution, ...] = ()
    mixes: Linear | None = None
    profiles: Linear | None = None
    by_place: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        q, k, v = self._projected(x, x, ctx)
        bias = self._distances(x, ctx)
        if self.by_place and x.trace.lowers:
            places = x.trace.new((ctx.stream.length, 1), "float32", "temperatures")
            q, bias = (x.trace.to(mul(x.trace.to(each, "float32"), places), each.dtype) for each in (q, bias))
        return self.output(self.mixed([q, k, v], ctx._replace(bias=bias)))

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        a, g = self.heads, self.kv_heads
        q, *others = (each(x) for each in self.inward)
        k, v = (convolution(each, ctx) for convolution, each in zip(self.convolutions, others, strict=True))
        q, k = self._normed(q, 0, a, ctx), self._normed(k, 1, g, ctx)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(reshape(v, *x.shape[:2], g, self.value_dim), 1, 2)

    def _mixes(self, x: Tensor, ctx: Context) -> Tensor:
        """How each head mixes the profiles."""
        assert self.mixes is not None
        assert self.profiles is not None
        return reshape(self.mixes(x), *x.shape[:2], self.heads, self.profiles.fan_in)

    def _distances(self, x: Tensor, ctx: Context) -> Tensor:
        """A number for each pair of a query and a key: those of its distance, or 0 where the profiles end."""
        assert self.profiles is not None
        made = transpose(self.profiles(self._mixes(x, ctx)), 1, 2)
        if not made.trace.lowers:
            return made
        seen: Num = ctx.stream.seen
        pairs = 1, 1, made.shape[2], seen
        return filled(gathered(made, seen, pairs), made.trace.new(pairs, "bool", "beyond the profiles"))
