"""What attention's scores add for how far a key stands from its query."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num


def relative_scores(name: str, heads: Num, width: Num, tokens: Num, distances: Num, scores: Num) -> Component:
    """``Q Rᵀ``: each head's query with a vector for each of ``distances``, added to its ``scores``.

    ====================  =======================================================================
    parameters            none: R is made by a map of its own, or is a table
    forward FLOPs         ``2·t·r·a·d`` for r distances
    backward FLOPs        twice that
    elementwise FLOPs     ``a`` per score for the addition; backward 1
    ====================  =======================================================================

    Source: Dai et al. 2019 (Transformer-XL, arXiv 1901.02860), section 3.3, terms (b) and (d).
    """
    return Component(
        name,
        "attend",
        Cost(
            products=(Product("Q Rᵀ", (2, tokens, distances, heads, width)),),
            elementwise=(Elementwise("+ Q Rᵀ", heads * scores, forward=1, backward=1),),
        ),
    )
