"""Layers that run several times, each time with the same weights (ALBERT)."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.nn.turn_by_turn import each_turn
from tfcalc.tape.tensor import Tensor


class Repeated(Module):
    """Layers that run so many ``times``, one turn upon another.

    Source: Lan et al. 2019 (ALBERT, arXiv 1909.11942), section 3.1.
    """

    kind = "layer"

    layers: Stack
    times: Num

    @property
    def passes(self) -> Num:
        """How often it runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Where it matters what is live when, turn by turn; else one turn for all."""
        ctx = ctx._replace(run=ctx.run.replaced(recompute="none"))  # its layers run again together, if they do
        if x.trace.lowers and x.trace.every_layer:
            for _ in each_turn(self.times):
                x = self.layers(x, ctx)
            return x
        with x.trace.passes(self.times):
            return self.layers(x, ctx)
