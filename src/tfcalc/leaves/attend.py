"""The products of attention itself: scores, softmax, and the mixture of the values."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs

SOFTMAX = (5, 4)  # max, minus it, exp, sum, divide; g·p, its sum, minus it, times p
SCALE = (1, 1)  # times 1/√d


def attend(
    name: str,
    heads: Num,
    key_dim: Num,
    value_dim: Num,
    pairs: Pairs,
) -> Component:
    """``softmax(Q Kᵀ / √d_k) V`` for ``heads`` heads of ``batch`` sequences.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·a·l·s·d_k`` for Q Kᵀ and ``2·b·a·l·s·d_v`` for the values
    backward FLOPs        twice that; a fused kernel computes Q Kᵀ again, 2.5 times
    elementwise FLOPs     6 per score (scale 1, softmax 5); backward 5
    ====================  =======================================================================

    ``pairs`` are those of queries and keys, by the convention in use (see :meth:`tfcalc.workload.Workload.pairs`). All
    heads together have width a·d; with a·d = h the products take 4·b·l·s·h FLOPs however many heads there are.

    Source: Vaswani et al. 2017, eq. 1; torch.utils.flop_counter (sdpa_flop_count, sdpa_backward_flop_count).
    """
    return Component(
        name,
        "attend",
        Cost(
            products=(
                Product("Q Kᵀ", (*pairs.twice, heads, key_dim), backward=3 if pairs.fused else 2),
                Product("P V", (*pairs.twice, heads, value_dim)),
            ),
            elementwise=(
                Elementwise("scale", heads * pairs.scores, *SCALE),
                Elementwise("softmax", heads * pairs.scores, *SOFTMAX),
            ),
            limit=pairs.limit,
        ),
    )
