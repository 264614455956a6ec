"""Linear maps whose input and output are cut off at numbers that the model holds."""

from __future__ import annotations

from tfcalc.nn.basic import Buffer, Linear
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.ops.elementwise import pointwise
from tfcalc.tape.tensor import Tensor


class Clipped(Linear):
    """A map that may be ``clipped``: its input is cut off before, and its output behind it, which keeps both."""

    clipped: bool = False

    def forward(self, x: Tensor, *given: object) -> Tensor:
        """On each row."""
        if not self.clipped:
            return super().forward(x)
        return pointwise("clip", super().forward(pointwise("clip", x)))


class FeedForwardWithLimits(GatedFeedForward):
    """A gated network of such maps, which holds their limits."""

    limits: tuple[Buffer, ...] = ()
