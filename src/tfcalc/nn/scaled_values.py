"""Attention whose values are multiplied by a number."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import scaled
from tfcalc.tape.tensor import Tensor


class ScaledValues(Attention):
    """Values are multiplied by a number before anything reads them (transformers' MiMoV2FlashAttention)."""

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super()._projected(x, source, ctx)
        return q, k, scaled(v)
