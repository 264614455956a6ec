"""Attention to a window on both sides, and to a few global tokens (Longformer)."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num
from tfcalc.ops.elementwise import dropping
from tfcalc.ops.work import SCALE, SOFTMAX
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def attend_nearby(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int,
    pieces: Num,
    marked: int,
    code: Callable[[], Tensor],
    *,
    dropped: bool = False,
) -> Tensor:
    """Attend to half a ``window`` on each side; q, k and v of b × a × l × d, cut into ``pieces`` of half a window.

    Scores are computed for pairs of neighbouring pieces with both, so overlaps of pairs are in two products; values
    of a piece are mixed from three pieces, with zeros outside of the window. ``marked`` tokens are seen by all.
    ``code`` runs a library's kernels; weights may be ``dropped`` (dropout).

    ====================  =======================================================================
    forward FLOPs         ``2·b·(p − 1)·w²·a·d`` for Q Kᵀ of p pieces, ``2·b·p·w/2·3w/2·a·d`` for the values
    backward FLOPs        twice that
    elementwise FLOPs     6 for each of w + 1 scores of a token, and for each marked token
    ====================  =======================================================================

    Source: Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section 3.1; transformers' LongformerSelfAttention.
    """
    b, a, l, d = q.shape
    half, scores = window // 2, a * (b * l) * (window + 1 + marked)
    products = (
        MatMul("Q Kᵀ", (2, b, pieces - 1, window, window, a, d), (q, k)),
        MatMul("P V", (2, b, pieces, half, 3 * half, a, d), (q, v)),
    )
    work = (Elementwise("scale", scores, *SCALE), Elementwise("softmax", scores, *SOFTMAX))
    call = Call("attend", (q, k, v), q.shape, q.dtype, products=products, elementwise=work)
    call = call._replace(leaf=Leaf("attend", "attend"), saves=(q, k, v), saves_result=True)
    heads = q.trace.composite(call, code)
    if dropped:
        q.trace.count(dropping(heads, scores, "attend_dropout"))
    return heads


def attend_marked(x: Tensor, asking: Tensor) -> Tensor:
    """Attend to the marked tokens, and from them (``asking``, of b × n × a·d): ``2·2·b·l·n·a·d`` FLOPs each.

    ``x``, of b × a × l × d, is the result of local attention.
    """
    b, a, l, d = x.shape
    factors = (2, b * l, asking.shape[1], a, d)
    for name in ("attend_global", "attend_from_global"):
        products = tuple(MatMul(product, factors, (x, asking)) for product in ("Q Kᵀ", "P V"))
        call = Call(name, (x, asking), x.shape, x.dtype, products=products, leaf=Leaf(name, "attend"))
        x = x.trace.call(call._replace(saves=(x, asking), saves_result=True))
    return x
