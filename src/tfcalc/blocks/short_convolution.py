"""A gated short convolution in the place of attention."""

from typing import NamedTuple

from tfcalc.blocks.recurrence import convolved
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import linear
from tfcalc.leaves.scan import gated_sum
from tfcalc.workload import Sequences


class ShortConvolution(NamedTuple):
    """``W_out (C · conv(B · x))``: one matrix makes B, C and x, a depthwise convolution looks a few tokens back.

    Source: LFM2 technical report (arXiv 2511.23404), section 2; transformers' Lfm2ShortConv.
    """

    d_model: Num
    kernel: Num
    bias: bool = False

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, t = self.d_model, stream.tokens
        return Component(
            name,
            "ssm",
            parts=(
                linear("in_proj", h, 3 * h, t, bias=self.bias, letter="in"),
                gated_sum("gates", "B·x, C·y", t * h),
                convolved("conv", h, self.kernel, stream, bias=self.bias),
                linear("out_proj", h, h, t, bias=self.bias, letter="out"),
            ),
        )
