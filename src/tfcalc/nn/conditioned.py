"""Layers in which a vector that is the same for all tokens scales what a sub-layer reads."""

from __future__ import annotations

from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul, residual, shifted
from tfcalc.tape.tensor import Tensor


class Adapter(Module):
    """Two small maps, of a width to a small one and back, with a GELU between them."""

    kind = "adapter"

    down: Linear
    up: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each row."""
        inner = self.down(x)
        return self.up(ctx.activation("gelu", inner, "gelu"))


class Conditioned(PreNorm):
    """``x + f(norm(x))``, and then ``x + f(norm(x) · (1 + g(c)))`` with a vector c for all tokens."""

    adapter: Adapter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            normed = norm(x, ctx)
            if sub is self.subs[-1]:
                normed = self._scaled(normed, ctx)
            x = residual(x, self.dropping(sub, sub(normed, ctx), ctx), sub.name)
        return x

    def _scaled(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.adapter is not None
        condition = x.trace.given((1, x.width), x.trace.weights_format, "condition")
        return mul(x, shifted(self.adapter(condition, ctx), "1 + scale"))
