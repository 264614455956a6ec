"""Attention by locality-sensitive hashing: expected collisions (YOSO), and the hashes themselves (Reformer)."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.ops.elementwise import quotient
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def attend_by_hashes(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """``(1 − acos(Q Kᵀ) / π)^τ V`` of normalised queries and keys, normalised: a torch.autograd.Function.

    It saves its inputs, the expectation of each pair, and the padding mask of each head.

    Source: Zeng et al. 2021 (YOSO, arXiv 2111.09714), section 3.1; transformers' YosoCumulation.
    """
    trace, (b, a, l, d) = q.trace, q.shape
    q, k, v = (reshape(each, b * a, l, d) for each in (q, k, v))
    mask = trace.new((b * a, l), "int32", "tokens that are there")
    q, k = normalised(q), normalised(k)
    with trace.without_gradients():
        scores = matmul(q, transpose(k, 1, 2))
        expectation = trace.call(Call("expectation", (scores,), scores.shape, scores.dtype, kernels=("acos", "pow")))
        made = matmul(expectation, v)
    size = scores.elements * 4
    del scores  # a local variable of the function's forward, which has returned
    saves = (mask, expectation, q, k, v)
    # ``made`` is assigned anew, so that the product without a gradient is freed when this one exists
    made = trace.call(Call("YosoCumulation", (q, k, v), made.shape, made.dtype, saves=saves, scratch=size, kernels=()))
    return reshape(normalised(made), b, a, l, d)


def normalised(x: Tensor) -> Tensor:
    """Divide each row by its norm: saves the rows, and their norms twice (torch.nn.functional.normalize)."""
    trace, shape = x.trace, (*x.shape[:-1], 1)
    length = trace.call(Call("norm", (x,), shape, x.dtype, saves=(x,), saves_result=True))
    least = trace.call(Call("clamp_min", (length,), shape, x.dtype, saves=(length,)))
    return quotient(x, least)


def hashes(name: str, q: Tensor, rounds: Num, vectors: int, used: Num) -> None:
    """Count the products of each head's query with random ``vectors``, the largest of which is its hash.

    ``used`` is 0 if the sequence is too short to be hashed, else 1.

    ``2·t·a·d·vectors·rounds`` FLOPs, and none in backward. Queries are of b × a × l × d.

    Source: Kitaev et al. 2020 (Reformer, arXiv 2001.04451), section 2; transformers' LSHSelfAttention._hash_vectors.
    """
    b, a, l, d = q.shape
    product = MatMul("Q R", (2, b * l, rounds, vectors, a, d, used), ())
    q.trace.count(Call(name, (), q.shape, q.dtype, products=(product,), leaf=Leaf(name, "attend")))
