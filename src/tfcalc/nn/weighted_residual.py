"""Layers whose stream is weighted before what a sub-layer made is added to it."""

from __future__ import annotations

from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.ops.elementwise import mul, residual
from tfcalc.tape.tensor import Tensor


class WeightedResidual(PreNorm):
    """``w·x + f(norm(x))``, with a trained w for each sub-layer (Doge)."""

    factors: tuple[Stored, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for (norm, sub), factor in zip(self.running(ctx), self.factors, strict=True):
            made = self.dropping(sub, sub(norm(x, ctx), ctx), ctx)
            x = residual(mul(factor.weight(x.trace), x), made, sub.name)
        return x
