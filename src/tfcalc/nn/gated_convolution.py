"""A gated short convolution in the place of attention."""

from __future__ import annotations

from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.convolution import ShortConvolution
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import mul
from tfcalc.ops.recurrences import gated_sum
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import contiguous, split, transpose
from tfcalc.tape.tensor import Tensor


class GatedConvolution(Module):
    """``W_out (C · conv(B · x))``: one matrix makes B, C and x, a depthwise convolution looks a few tokens back.

    Source: LFM2 technical report (arXiv 2511.23404), section 2; transformers' Lfm2ShortConv.
    """

    kind = "ssm"

    in_proj: Linear
    conv: ShortConvolution
    out_proj: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        trace = x.trace
        before, behind, inner = split(transpose(self.in_proj(x), 1, 2), [self.conv.channels] * 3, 1)
        gates = gated_sum("gates", "B·x, C·y", inner.elements)  # those on both sides of the convolution
        inner = recurrence(gates, inner, inner.shape, lambda: mul(before, inner))
        made = trace.to(self.conv(trace.to(inner, trace.weights_format), ctx), inner.dtype)
        made = mul(behind, made) if trace.lowers else made
        return self.out_proj(contiguous(transpose(made, 1, 2)))
