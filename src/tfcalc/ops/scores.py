"""Scores of an indexer, which select the keys that sparse attention reads."""

from __future__ import annotations

from tfcalc.core.component import Component, Cost, Elementwise, Matmul
from tfcalc.core.number import Num, Pairs


def score(
    name: str, heads: Num, key_dim: Num, pairs: Pairs, *, weighted: bool = True, operations: int = 2
) -> Component:
    """``Σ_h w_h · relu(q_h · k / √d)``: one score for each query and key, a weighted sum over heads.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·a·l·s·d`` for Q Kᵀ and ``2·b·a·l·s`` for the sum over heads
    backward FLOPs        none: a selection has no gradient
    elementwise FLOPs     2 per head's score (scale, relu)
    ====================  =======================================================================

    ``pairs`` are those of :func:`tfcalc.ops.attention.attend`. If the sum over heads is no product (not ``weighted``),
    it is among the ``operations`` per head's score.

    Source: DeepSeek-V3.2 (arXiv 2512.02556), eq. 1; transformers' DeepseekV32Indexer.
    """
    total = [Matmul("w · scores", (*pairs.twice, heads), backward=0)] if weighted else []
    return Component(
        name,
        "attend",
        Cost(
            products=(Matmul("Q Kᵀ", (*pairs.twice, heads, key_dim), backward=0), *total),
            elementwise=(Elementwise("of each score", heads * pairs.scores, operations, backward=0),),
        ),
    )
