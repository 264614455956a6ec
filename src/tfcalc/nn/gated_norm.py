"""A norm whose output is gated by a small network of itself."""

from __future__ import annotations

from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul, pointwise
from tfcalc.tape.tensor import Tensor


class NormGate(Module):
    """A number for each of a vector, through one of low rank: ``σ(W₂ silu(W₁ y))``, the sigmoid in fp32."""

    kind = "gate"

    fc1: Linear
    fc2: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each row."""
        inner = self.fc1(x)
        inner = ctx.activation("silu", inner)
        made = self.fc2(inner)
        made = made.trace.to(made, "float32")
        return activation("sigmoid", made, lambda: pointwise("sigmoid", made), "gate")


class GatedNorm(Module):
    """``y · gate(y)`` of ``y = norm(x)``.

    Source: transformers' AXK2GatedRMSNorm.
    """

    kind = "norm"

    norm: Norm
    gate: NormGate

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each row, in the norm's own format."""
        y = self.norm(x, ctx)
        return x.trace.to(mul(y, self.gate(y, ctx)), y.dtype)
