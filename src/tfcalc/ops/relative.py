"""Relative attention scores: products of queries with a vector for each distance (Transformer-XL)."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def relative_scores(name: str, q: Tensor, r: Tensor, scores: Num) -> None:
    """Count ``Q Rᵀ``, each head's query times a vector for each distance, and its addition to the ``scores``.

    ====================  =======================================================================
    parameters            none: R is computed by a linear map, or is a table
    forward FLOPs         ``2·t·r·a·d`` for r distances
    backward FLOPs        twice that
    elementwise FLOPs     ``a`` per score for the addition; backward 1
    ====================  =======================================================================

    Queries are of l × b × a × d, and vectors of r × b × a × d.

    Source: Dai et al. 2019 (Transformer-XL, arXiv 1901.02860), section 3.3, terms (b) and (d).
    """
    length, batch, heads, width = q.shape
    call = _relative(name, (q, r), (length * batch, r.shape[0], heads, width), scores)
    q.trace.count(call._replace(saves_result=True))


def with_distances(q: Tensor, name: str, distances: Num, scores: Num) -> Tensor:
    """``Q Rᵀ`` as in :func:`relative_scores`, with ``distances`` vectors and queries of b × a × l × d."""
    batch, heads, length, width = q.shape
    return q.trace.call(_relative(name, (q,), (batch * length, distances, heads, width), scores))


def _relative(name: str, inputs: tuple[Tensor, ...], sizes: tuple[Num, Num, Num, Num], scores: Num) -> Call:
    """``Q Rᵀ`` of ``sizes`` (tokens, distances, heads, width of a head), and its addition to each head's scores."""
    q, r = inputs[0], inputs[-1]
    return Call(
        name,
        inputs,
        q.shape,
        q.dtype,
        products=(MatMul("Q Rᵀ", (2, *sizes), (q, r)),),
        elementwise=(Elementwise("+ Q Rᵀ", sizes[2] * scores, forward=1, backward=1),),
        leaf=Leaf(name, "attend"),
    )
