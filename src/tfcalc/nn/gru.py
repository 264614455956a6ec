"""A recurrent network over a sequence, in the place of a table of positions."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.gru import gru
from tfcalc.ops.keeping import read_before
from tfcalc.tape.tensor import Tensor


class GRU(Module):
    """A gated recurrent unit as wide as what it reads (Neishi and Yoshinaga 2019, doi:10.18653/v1/K19-1031).

    Source: Cho et al. 2014 (arXiv 1406.1078), eq. 5 to 8; torch.nn.GRU, which has a bias for both maps.
    """

    kind = "position"

    width: Num

    def held(self) -> Cost:
        """The maps of input and state to two gates and the new state, with a bias each."""
        gates = 3 * self.width
        return Cost(
            weights=(
                Weight("W_x", (self.width, gates), key="weight_ih_l0", turned=True),
                Weight("W_s", (self.width, gates), key="weight_hh_l0", turned=True),
                Weight("b_x", (gates,), minor=True, key="bias_ih_l0"),
                Weight("b_s", (gates,), minor=True, key="bias_hh_l0"),
            )
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h, one token after another."""
        weights = self.weights(x.trace)
        return gru(x, weights, starts=0 if read_before(ctx.stream) else ctx.stream.batch)
