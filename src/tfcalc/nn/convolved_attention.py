"""Attention with a convolution of the values of each head beside it (Nyströmformer, YOSO)."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.module import Module
from tfcalc.ops.attention import attend
from tfcalc.ops.convolution import head_convolution
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.hashing import attend_by_hashes
from tfcalc.ops.landmarks import attend_landmarks
from tfcalc.tape.tensor import Tensor


class HeadConvolution(Module):
    """A convolution over the tokens, with a kernel of so many for each head."""

    kind = "convolution"

    heads: Num
    kernel: Num

    def held(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.heads, 1, self.kernel, 1)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of b × a × l × d."""
        (weight,) = self.weights(x.trace)
        return head_convolution(x, weight)


class ConvolvedAttention(Attention):
    """Attention, to whose result convolved values may be added."""

    beside: HeadConvolution | None = None

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        made = self._compared(q, k, v, ctx, name)
        return made if self.beside is None else add(made, self.beside(self._convolved(v, ctx)))

    def _compared(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        """What queries make of keys and values."""
        return super()._attended(q, k, v, ctx, name)

    def _convolved(self, v: Tensor, ctx: Context) -> Tensor:
        """What the convolution reads."""
        return v


class LandmarkAttention(ConvolvedAttention):
    """Scores by way of so many ``landmarks``; without any, of all pairs, and none of them dropped."""

    landmarks: Num | None = None

    def _compared(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        if self.landmarks is None:
            return super()._compared(q, k, v, ctx, name)
        return attend_landmarks(q, k, v, self.landmarks, name)


class HashedAttention(ConvolvedAttention):
    """Scores by the chance that two have the same hash; counted as if there were scores of all pairs."""

    def _compared(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str) -> Tensor:
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=self.causal)
        cached = self._kept(ctx)
        return attend(q, k, v, pairs, lambda: attend_by_hashes(q, k, v), cached=cached, name=name)

    def _convolved(self, v: Tensor, ctx: Context) -> Tensor:
        return v if ctx.places is None else mul(v, ctx.places)


class HashedEncoder(Encoder):
    """An encoder whose layers read which tokens are there."""

    def _run(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor | None]:
        if x.trace.lowers:
            shape = (x.shape[0], 1, x.shape[1], 1)
            ctx = ctx._replace(places=x.trace.new(shape, "float32", "tokens that are there"))
        return super()._run(x, ctx, reads=reads)
