"""Short convolutions over time, which recurrent mixers have before their recurrence."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.convolution import causal_convolution, convolution, summed_step
from tfcalc.ops.keeping import CONVOLUTION, by_sequence
from tfcalc.tape.tensor import Tensor


class ShortConvolution(Module):
    """Each channel by itself, over its last ``kernel`` tokens.

    In decoding the last ``kernel`` inputs are cached, or those before the new one where a step is ``summed``: products
    and sums instead of a convolution; of so many ``bits`` each, where they are not the model's.
    """

    kind = "convolution"

    channels: Num
    kernel: Num
    bias: bool = True
    summed: bool = False
    bits: int | None = None

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.channels, 1, self.kernel))
        return Cost(weights=(weight, *([Weight("b", (self.channels,), minor=True, key="bias")] if self.bias else [])))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On b × c × l."""
        weight, bias, *_ = *self.weights(x.trace), None
        kept = self.kernel - 1 if self.summed else self.kernel
        cached = by_sequence(ctx.stream, CONVOLUTION, self.channels, kept, self.bits)
        step = ctx.stream.cached is not None
        if step and self.summed:
            return summed_step(x, weight, bias, cached=cached)
        return causal_convolution(x, weight, bias, cached=cached, step=step)


class GroupedConvolution(Module):
    """A convolution over time, without zeros at its ends: ``groups`` of channels each ``read`` as many as they make."""

    kind = "convolution"

    groups: Num
    read: Num
    kernel: Num

    @property
    def channels(self) -> Num:
        """Those of all groups."""
        return self.groups * self.read

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.channels, self.read, self.kernel))
        return Cost(weights=(weight, Weight("b", (self.channels,), minor=True, key="bias")))

    def forward(self, x: Tensor, places: Num) -> Tensor:
        """On b × c × l; at so many places."""
        weight, bias = self.weights(x.trace)
        return convolution(x, weight, bias, places, self.groups)
