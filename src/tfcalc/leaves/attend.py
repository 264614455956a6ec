"""The products of attention itself: scores, softmax, and the mixture of the values."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num

SOFTMAX = (5, 4)  # max, minus it, exp, sum, divide; g·p, its sum, minus it, times p
SCALE = (1, 1)  # times 1/√d


def attend(
    name: str,
    heads: Num,
    key_dim: Num,
    value_dim: Num,
    twice_pairs: tuple[Num, ...],
    scores: Num,
    *,
    recomputes_scores: bool = False,
) -> Component:
    """``softmax(Q Kᵀ / √d_k) V`` for ``heads`` heads of ``batch`` sequences.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·a·l·s·d_k`` for Q Kᵀ and ``2·b·a·l·s·d_v`` for the values
    backward FLOPs        twice that; a fused kernel computes Q Kᵀ again (``recomputes_scores``), 2.5 times
    elementwise FLOPs     6 per score (scale 1, softmax 5); backward 5
    ====================  =======================================================================

    ``twice_pairs`` multiply to twice the query-key pairs of the batch, by the convention in use (see
    :meth:`tfcalc.workload.Workload.twice_pairs`). ``scores`` are those that one head's softmax runs over: all of them,
    for a mask does not shorten a row. All heads together have width a·d; with a·d = h the products take 4·b·l·s·h
    FLOPs however many heads there are.

    Source: Vaswani et al. 2017, eq. 1; torch.utils.flop_counter (sdpa_flop_count, sdpa_backward_flop_count).
    """
    return Component(
        name,
        "attend",
        Cost(
            products=(
                Product("Q Kᵀ", (*twice_pairs, heads, key_dim), backward=3 if recomputes_scores else 2),
                Product("P V", (*twice_pairs, heads, value_dim)),
            ),
            elementwise=(
                Elementwise("scale", heads * scores, *SCALE),
                Elementwise("softmax", heads * scores, *SOFTMAX),
            ),
        ),
    )
