"""Griffin's recurrent block: a gated linear recurrence of each channel."""

from __future__ import annotations

from tfcalc.nn.basic import BlockDiagonal, Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.keeping import FP32, STATE, by_sequence
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor


class RGLRU(Module):
    """``h ← a·h + √(1 − a²)·(i·x)`` with ``a = exp(−8·softplus(Λ)·r)``: gates i and r are made of x, block by block.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), section 2.4.
    """

    kind = "scan"
    loops = True

    decay: Stored
    input_gate: BlockDiagonal
    recurrent_gate: BlockDiagonal

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × w."""
        blocks = transpose(reshape(x, x.rows, self.input_gate.blocks, self.input_gate.fan_in), 0, 1)
        gates = [self._gate(each, blocks, x, ctx) for each in (self.input_gate, self.recurrent_gate)]
        cached = by_sequence(ctx.stream, STATE, x.width, 1, FP32)
        formula = gated_sum("recurrence", "a·h + √(1−a²)·i·x", x.elements)
        return recurrence(formula, x, x.shape, lambda: ctx.backend.scan(self, ctx, x, *gates), cached=cached)

    def _gate(self, gate: BlockDiagonal, blocks: Tensor, x: Tensor, ctx: Context) -> Tensor:
        made = reshape(transpose(gate(blocks), 0, 1), *x.shape)
        return ctx.activation("sigmoid", made, f"{gate.name}_sigmoid")


class RecurrentBlock(Module):
    """Two branches: one through a convolution and the RG-LRU, one through an activation that gates it.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), sections 2.3, 2.4; transformers' RecurrentGemmaRecurrentBlock.
    """

    kind = "ssm"

    linear_y: Linear
    activation: str
    linear_x: Linear
    conv_1d: ShortConvolution
    rg_lru: RGLRU
    linear_out: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        gate = self.linear_y(x)
        gate = ctx.activation(self.activation, gate)
        inner = self.conv_1d(transpose(self.linear_x(x), 1, 2), ctx)
        return self.linear_out(mul(self.rg_lru(transpose(inner, 1, 2), ctx), gate))
