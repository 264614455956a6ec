"""Gated networks whose gate and input are cut off."""

from __future__ import annotations

from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.mixture import Experts
from tfcalc.ops.elementwise import mul, pointwise, scaled, shifted
from tfcalc.tape.tensor import Tensor


class ClippedFeedForward(GatedFeedForward):
    """``((up + 1) · gate · σ(α · gate)) W_2``, both cut off first; it counts as its activation does (gpt-oss)."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        if not gate.trace.lowers:
            return super().halves_gated(gate, up, ctx)
        gate, up = pointwise("clamp", gate), pointwise("clamp", up)
        glu = mul(gate, pointwise("sigmoid", scaled(gate)))
        return mul(shifted(up, "up + 1"), glu)


class LimitedFeedForward(GatedFeedForward):
    """``(activation(gate) · up) W_2``, gate and input cut off first (DeepSeek-V4)."""

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        assert self.gate is not None
        gate, up = pointwise("clamp", self.gate(x)), pointwise("clamp", self.up(x))
        return self.halves_gated(gate, up, ctx)


class LimitedExperts(Experts):
    """The same of many experts."""

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made."""
        return super().halves_gated(pointwise("clamp", gate), pointwise("clamp", up), ctx)
