"""What attention's scores add for how far a key stands from its query."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.core.number import Num
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Tensor


def relative_scores(name: str, q: Tensor, r: Tensor, scores: Num) -> None:
    """``Q Rᵀ``: each head's query with a vector for each distance, added to its ``scores``; something else makes them.

    ====================  =======================================================================
    parameters            none: R is made by a map of its own, or is a table
    forward FLOPs         ``2·t·r·a·d`` for r distances
    backward FLOPs        twice that
    elementwise FLOPs     ``a`` per score for the addition; backward 1
    ====================  =======================================================================

    Queries are of l × b × a × d, and vectors of r × b × a × d.

    Source: Dai et al. 2019 (Transformer-XL, arXiv 1901.02860), section 3.3, terms (b) and (d).
    """
    length, batch, heads, width = q.shape
    call = Call(
        name,
        (q, r),
        q.shape,
        q.dtype,
        products=(MatMul("Q Rᵀ", (2, length * batch, r.shape[0], heads, width), (q, r)),),
        elementwise=(Elementwise("+ Q Rᵀ", heads * scores, forward=1, backward=1),),
        leaf=Leaf(name, "attend"),
        saves_result=True,
    )
    q.trace.count(call)
