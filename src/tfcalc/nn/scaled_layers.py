"""Layers whose sub-layers' outputs are multiplied by trained scales."""

from __future__ import annotations

from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.ops.elementwise import mul, residual
from tfcalc.tape.tensor import Tensor


class LayerScale(PreNorm):
    """``x + λ · f(norm(x))`` for each sub-layer, with a λ for each number of a vector.

    Source: Touvron et al. 2021 (CaiT, arXiv 2103.17239), eq. 4.
    """

    scalers: tuple[Stored, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for (norm, sub), scale in zip(self.running(ctx), self.scalers, strict=True):
            made = self.dropping(sub, sub(norm(x, ctx), ctx), ctx)
            x = residual(x, mul(made, scale.weight(x.trace)), sub.name)
        return x
