"""A recurrent network over a sequence."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num
from tfcalc.tape.tensor import Call, MatMul, Tensor

GRU = (20, 22)
"""Per element of the state. Forward: six biases, three sums, two sigmoids (3 each), r times, tanh, (h − n)·z + n.
Backward: six biases, the mixture's (h − n, ·g, g·z, g − g·z), tanh's (3), r's (2), the sigmoids' (3 each), one sum."""


def gru(x: Tensor, weights: Sequence[Tensor], starts: Num) -> Tensor:
    """Run a gated recurrent unit of its input's width, over tokens of which ``starts`` begin a sequence.

    ====================  =======================================================================
    parameters            ``3(h² + h²) + 6h``: two gates and the new state, from input and state, two biases each
    forward FLOPs         ``12·t·h²``: 2·t·h·3h of the input, as many of the state
    backward FLOPs        twice that, less ``6·h²`` for each sequence, whose initial state needs no gradient
    elementwise FLOPs     20 per element of the state; backward 22
    ====================  =======================================================================

    Source: Cho et al. 2014 (arXiv 1406.1078), eq. 5 to 8; torch.nn.GRU.
    """
    of_input, of_state, *_ = weights
    return x.trace.call(
        Call(
            "gru",
            (x, *weights),
            x.shape,
            x.dtype,
            products=(
                MatMul("X W_x", (2, x.rows, *of_input.shape), (x, of_input)),
                MatMul("S W_s, first", (2, starts, *of_state.shape), (None, of_state)),
                MatMul("S W_s, others", (2, x.rows - starts, *of_state.shape), (x, of_state)),
            ),
            elementwise=(Elementwise("gates of a GRU", x.elements, *GRU),),
            saves_result=True,
        )
    )
