"""A recurrent network over a sequence."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product, Tensor
from tfcalc.core.number import Num

GRU = (20, 22)
"""Per element of the state. Forward: six biases, three sums, two sigmoids (3 each), r times, tanh, (h − n)·z + n.
Backward: six biases, the mixture's (h − n, ·g, g·z, g − g·z), tanh's (3), r's (2), the sigmoids' (3 each), one sum."""


def gru(name: str, width: Num, tokens: Num, starts: Num) -> Component:
    """A gated recurrent unit as wide as what it reads, over ``tokens`` of which ``starts`` have no state before them.

    ====================  =======================================================================
    parameters            ``3(h² + h²) + 6h``: for two gates and the new state, of input and state, two biases each
    forward FLOPs         ``12·t·h²``: 2·t·h·3h of the input, as many of the state
    backward FLOPs        twice that, but for a first state, which is data: ``6·h²`` less for each sequence
    elementwise FLOPs     20 per element of the state; backward 22
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops, params
    >>> from tfcalc.core.polynomial import symbols
    >>> h, l, b = symbols("h l b")
    >>> params(gru("position", h, l * b, b).own), matmul_flops(gru("position", h, l * b, b).own)
    (6*h^2 + 6*h, 12*b*h^2*l)

    Source: Cho et al. 2014 (arXiv 1406.1078), eq. 5 to 8; torch.nn.GRU, which has a bias for both maps.
    """
    state = (width, 3 * width)
    return Component(
        name,
        "position",
        Cost(
            weights=(
                Tensor("W_x", state, key="weight_ih_l0"),
                Tensor("W_s", state, key="weight_hh_l0"),
                Tensor("b_x", (3 * width,), minor=True, key="bias_ih_l0"),
                Tensor("b_s", (3 * width,), minor=True, key="bias_hh_l0"),
            ),
            products=(
                Product("X W_x", (2, tokens, *state)),
                Product("S W_s, first", (2, starts, *state), backward=1),
                Product("S W_s, others", (2, tokens - starts, *state)),
            ),
            elementwise=(Elementwise("gates of a GRU", tokens * width, *GRU),),
        ),
    )
