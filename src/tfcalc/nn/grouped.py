"""Linear maps that mix only the channels of a group."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, divide
from tfcalc.nn.basic import Linear
from tfcalc.ops.grouped import grouped_product, pointwise_convolution
from tfcalc.tape.tensor import Tensor


class GroupedMap(Linear):
    """A map of every token in so many ``groups``: a convolution over one token.

    Source: Iandola et al. 2020 (SqueezeBERT, arXiv 2006.11316), section 3.2.
    """

    kind: str = "convolution"
    groups: Num = 1

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.fan_out, divide(self.fan_in, self.groups), 1))
        bias = [Weight("b", (self.fan_out,), minor=True, key="bias")] if self.bias else []
        return Cost(weights=(weight, *bias))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of each token."""
        weight, *biases = self.weights(x.trace)
        return pointwise_convolution(x, weight, biases[0] if biases else None, self.groups)


class GroupedLinear(GroupedMap):
    """The same as a matrix product for each group (ConvBERT's GroupedLinearLayer)."""

    def held(self) -> Cost:
        """W and b."""
        g = self.groups
        weight = Weight("w", (g, divide(self.fan_in, g), divide(self.fan_out, g)))
        return Cost(weights=(weight, Weight("b", (self.fan_out,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of each token."""
        weight, bias = self.weights(x.trace)
        return grouped_product(x, weight, bias)
