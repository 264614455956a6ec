"""Relative positions in attention: vectors, factors and biases for each distance of a key from its query."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num, Pairs
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def rows_by_distance(table: Tensor, seen: Num) -> Tensor:
    """Look up the row of each pair's distance; its gradient is added to the row.

    ====================  =======================================================================
    parameters            ``r·w`` for r distances: w is a head's width for vectors, a for one number for each head
    FLOPs                 0: a lookup copies a row
    elementwise backward  ``l·s·w``: each pair's gradient is added to its row
    lookups               ``l·s`` (``seen``)
    ====================  =======================================================================

    Source: Shaw et al. 2018 (arXiv 1803.02155), section 3.2; Raffel et al. 2019 (T5, arXiv 1910.10683), section 2.1.
    """
    width = table.shape[-1]
    work = (Elementwise("gradient of a row", seen * width, forward=0, backward=1),)
    return table.trace.call(Call("embedding", (table,), (seen, width), table.dtype, elementwise=work, lookups=seen))


def with_vectors(x: Tensor, name: str, product: str, width: Num, pairs: Pairs, elements: Num) -> Tensor:
    """Add ``Q A_Kᵀ`` to the scores, or ``P A_V`` to ``P V``: A has a vector for each pair.

    ====================  =======================================================================
    parameters            none: A's rows are those of a table, shared by all heads
    forward FLOPs         ``2·b·l·s·a·d``: as Q Kᵀ, or P V, over the same pairs
    backward FLOPs        twice that
    elementwise FLOPs     1 per element of the sum (``elements``); backward 1
    ====================  =======================================================================

    Source: Shaw et al. 2018 (arXiv 1803.02155), eq. 3 and 4; section 3.3 on how they are multiplied.
    """
    products = (MatMul(product, (*pairs.twice, x.shape[1], width), (x, x)),)
    work = (Elementwise(f"+ {product}", elements, forward=1, backward=1),)
    return x.trace.call(Call(name, (x,), x.shape, x.dtype, products, work, leaf=Leaf(name, "attend")))


def times_factors(q: Tensor, scores: Num) -> Tensor:
    """``(Q Kᵀ)·w[j − i]``: 1 multiplication per score; backward 3 (g·w, g·score, its sum). No parameters of its own.

    Source: Huang et al. 2020 (arXiv 2009.13658), section 4, method 2.
    """
    work = (Elementwise("· w[j - i]", scores, forward=1, backward=3),)
    return q.trace.call(Call("factors", (q,), q.shape, q.dtype, elementwise=work, leaf=Leaf("factors", "attend")))


def plus_bias(q: Tensor, scores: Num, *, trained: bool) -> Tensor:
    """``Q Kᵀ + bias[j − i]``: 1 addition per score, and 1 for the gradient of a ``trained`` bias.

    A fixed one is a slope times the distance, computed once for all layers. Source: Raffel et al. 2019 (T5, arXiv
    1910.10683), section 2.1; Press et al. 2021 (ALiBi, arXiv 2108.12409), section 3.
    """
    which = "trained" if trained else "fixed"
    work = (Elementwise(f"+ bias[j - i] ({which})", scores, forward=1, backward=int(trained)),)
    return q.trace.call(Call("bias", (q,), q.shape, q.dtype, elementwise=work, leaf=Leaf("bias", "attend")))


def plus_vector(q: Tensor, vector: Tensor) -> Tensor:
    """``q + u``: a trained vector for each head, ``a·d`` parameters; 1 addition per element, 1 to sum its gradient.

    Source: Dai et al. 2019 (Transformer-XL, arXiv 1901.02860), section 3.3, terms (c) and (d).
    """
    work = (Elementwise("+ u, + v", q.elements, forward=1, backward=1),)
    return q.trace.call(Call("add", (q, vector), q.shape, q.dtype, elementwise=work))
