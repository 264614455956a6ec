"""Falcon-H1's parts: each with numbers that it multiplies by, and attention beside a recurrence in one layer."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.mamba2 import Mamba2
from tfcalc.ops.elementwise import mul, residual, scaled
from tfcalc.tape.tensor import Tensor


class MultipliedAttention(Attention):
    """Keys are multiplied by a number."""

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super()._projected(x, source, ctx)
        return q, scaled(k), v


class MultipliedMamba2(Mamba2):
    """The input is multiplied by a number, and what it is mapped to by one for each of its parts."""

    def _projected(self, x: Tensor) -> Tensor:
        made = self.in_proj(scaled(x))
        return mul(made, x.trace.given((1, 1, made.width), x.trace.weights_format, "multipliers"))


class MultipliedFeedForward(GatedFeedForward):
    """The input is mapped before the gate, which is multiplied by a number, as is the output."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        assert self.gate is not None
        up = self.up(x)
        return scaled(self.down(mul(up, self.activated(scaled(self.gate(x)), ctx))))


class Mixed(PreNorm):
    """``x + (f(norm(x)) + g(norm(x)))``, each times a number, and then ``x + h(norm(x))``.

    Source: transformers' FalconH1DecoderLayer.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Side by side, and one after them."""
        recurrent, attention, last = self.subs
        before, behind = (norm for norm in self.norms if norm is not None)
        normed = before(x, ctx)
        made = scaled(recurrent(normed, ctx))
        x = residual(x, residual(made, scaled(attention(scaled(normed), ctx)), attention.name), recurrent.name)
        return residual(x, last(behind(x, ctx), ctx), last.name)
