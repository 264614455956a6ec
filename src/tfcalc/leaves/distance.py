"""What attention is told of how far a key stands from its query: vectors, factors and biases for each distance."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product, Tensor
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs


def distance_table(name: str, letter: str, distances: Num, width: Num, seen: Num) -> Component:
    """A trained row for each of ``distances``, or for each bucket of them, looked up for each pair of a sequence.

    ====================  =======================================================================
    parameters            ``r·w`` for r distances: w is a head's width for vectors, a for one number for each head
    FLOPs                 0: a lookup copies a row
    elementwise backward  ``l·s·w``: each pair's gradient is added to its row
    lookups               ``l·s`` (``seen``)
    ====================  =======================================================================

    >>> from tfcalc.core.measure import params
    >>> params(distance_table("bias", "B", 32, 12, 0).own)
    384

    Source: Shaw et al. 2018 (arXiv 1803.02155), section 3.2; Raffel et al. 2019 (T5, arXiv 1910.10683), section 2.1.
    """
    return Component(
        name,
        "position",
        Cost(
            weights=(Tensor(letter, (distances, width)),),
            elementwise=(Elementwise("gradient of a row", seen * width, forward=0, backward=1),),
            lookups=seen,
        ),
    )


def relative_vectors(name: str, product: str, heads: Num, width: Num, pairs: Pairs, elements: Num) -> Component:
    """``Q A_Kᵀ`` added to the scores, or ``P A_V`` to the mixture of the values: A has a vector for each pair.

    ====================  =======================================================================
    parameters            none: A's rows are those of a table, shared by all heads
    forward FLOPs         ``2·b·l·s·a·d``: as Q Kᵀ, or P V, over the same pairs
    backward FLOPs        twice that
    elementwise FLOPs     1 for each of the ``elements`` that it is added to; backward 1
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> a, d, b, l = symbols("a d b l")
    >>> matmul_flops(relative_vectors("keys", "Q A_Kᵀ", a, d, Pairs((2, b, l, l), b * l * l), b * l * l * a).own)
    2*a*b*d*l^2

    Source: Shaw et al. 2018 (arXiv 1803.02155), eq. 3 and 4; section 3.3 on how they are multiplied.
    """
    return Component(
        name,
        "attend",
        Cost(
            products=(Product(product, (*pairs.twice, heads, width)),),
            elementwise=(Elementwise(f"+ {product}", elements, forward=1, backward=1),),
        ),
    )


def distance_factors(name: str, scores: Num) -> Component:
    """``(Q Kᵀ)·w[j − i]``: 1 multiplication per score; backward 3 (g·w, g·score, its sum). No parameters of its own.

    Source: Huang et al. 2020 (arXiv 2009.13658), section 4, method 2.
    """
    return Component(name, "attend", Cost(elementwise=(Elementwise("· w[j - i]", scores, forward=1, backward=3),)))


def distance_bias(name: str, scores: Num, *, trained: bool) -> Component:
    """``Q Kᵀ + bias[j − i]``: 1 addition per score; 1 to add up the gradient of one that is ``trained``.

    One that is not is a slope times the distance, made once for all layers. Source: Raffel et al. 2019 (T5, arXiv
    1910.10683), section 2.1; Press et al. 2021 (ALiBi, arXiv 2108.12409), section 3.
    """
    which = "trained" if trained else "fixed"
    work = Elementwise(f"+ bias[j - i] ({which})", scores, forward=1, backward=int(trained))
    return Component(name, "attend", Cost(elementwise=(work,)))


def query_bias(name: str, heads: Num, width: Num, tokens: Num) -> Component:
    """``q + u``: a trained vector for each head, ``a·d`` parameters; 1 addition per element, 1 to sum its gradient.

    Source: Dai et al. 2019 (Transformer-XL, arXiv 1901.02860), section 3.3, terms (c) and (d).
    """
    return Component(
        name,
        "parameter",
        Cost(
            weights=(Tensor(name, (heads, width), minor=True, key=""),),
            elementwise=(Elementwise("+ u, + v", tokens * heads * width, forward=1, backward=1),),
        ),
    )
