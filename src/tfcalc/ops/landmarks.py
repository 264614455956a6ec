"""Attention through landmarks (Nyströmformer)."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num, divide
from tfcalc.ops.elementwise import mul, pointwise, scaled, shifted
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.ops.work import SCALE, SOFTMAX
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor

STEPS = 6
"""Iterations to the pseudo-inverse, of four matrix products each (Xiong et al. 2021, eq. 11)."""


def attend_landmarks(q: Tensor, k: Tensor, v: Tensor, landmarks: Num, name: str = "attend") -> Tensor:
    """``softmax(Q K̃ᵀ) · softmax(Q̃ K̃ᵀ)⁺ · softmax(Q̃ Kᵀ) V``: Q̃ and K̃ are means of ``landmarks`` segments.

    q, k and v are of b × a × l × d. Backward takes two products for each of the forward ones.

    Source: Xiong et al. 2021 (Nyströmformer, arXiv 2102.03902), section 3.2; transformers' NystromformerSelfAttention.
    """
    (b, a, l, d), m = q.shape, landmarks
    t, both = b * l, (q, v)
    products = (
        MatMul("Q K̃ᵀ", (2, t, m, a, d), both),
        MatMul("Q̃ K̃ᵀ", (2, b, m, m, a, d), both),
        MatMul("Q̃ Kᵀ", (2, t, m, a, d), both),
        MatMul("pseudo-inverse", (2, STEPS, 4, b, a, m, m, m), both),
        MatMul("P₁ P₂⁺", (2, t, m, m, a), both),
        MatMul("P₃ V", (2, t, m, a, d), both),
        MatMul("P V", (2, t, m, a, d), both),
    )
    scores = a * (2 * t * m + b * m * m)
    work = (Elementwise("scale", a * d * 2 * t, *SCALE), Elementwise("softmax", scores, *SOFTMAX))
    leaf = Leaf(name, "attend")
    call = Call(name, (q, k, v), q.shape, q.dtype, products=products, elementwise=work, leaf=leaf, saves_result=True)
    return q.trace.composite(call, lambda: _run(q, k, v, m))


def _run(q: Tensor, k: Tensor, v: Tensor, m: Num) -> Tensor:
    q, k = scaled(q, "div"), scaled(k, "div")
    of_q, of_k = _means(q, m), _means(k, m)
    p1 = softmax(matmul(q, transpose(of_k, 2, 3)))
    p2 = softmax(matmul(of_q, transpose(of_k, 2, 3)))
    p3 = softmax(matmul(of_q, transpose(k, 2, 3)))
    p = matmul(p1, _inverse(p2))
    return matmul(p, matmul(p3, v))


def _means(x: Tensor, m: Num) -> Tensor:
    b, a, l, d = x.shape
    x = reshape(x, b, a, m, divide(l, m), d)
    return x.trace.call(Call("mean", (x,), (b, a, m, d), x.dtype))


def _inverse(key: Tensor) -> Tensor:
    """Return the pseudo-inverse by iteration; it starts with the transpose over the largest sum of columns.

    Every step saves five matrices.
    """
    trace = key.trace
    sums = trace.call(Call("sum", (key,), (*key.shape[:2], key.width), key.dtype))
    largest = trace.call(Call("max", (sums,), (), key.dtype, saves=(sums,), saves_result=True))
    x = mul(scaled(pointwise("reciprocal", largest)), transpose(key, 2, 3))
    for _ in range(STEPS):
        both = matmul(key, x)
        inner = matmul(both, shifted(both, "7 I − A"))
        inner = matmul(both, shifted(inner, "15 I − A"))
        x = matmul(scaled(x), shifted(inner, "13 I − A"))
    return x
