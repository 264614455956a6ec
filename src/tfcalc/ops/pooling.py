"""Pooling of sequences, and masks and selections (Funnel Transformer)."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.tape.tensor import Call, Leaf, MatMul, Shape, Tensor, preserved

MEAN, LARGEST, SMALLEST = "mean", "max", "min"


def pooled(x: Tensor, length: Num, kind: str = MEAN) -> Tensor:
    """Pool pairs of tokens of b × l × h: the mean saves its input, the maximum also its indices.

    The minimum is the maximum of the negative. Source: torch's avg_pool2d and max_pool2d.
    """
    trace, shape = x.trace, (x.shape[0], length, x.width)
    if kind == MEAN:
        return trace.call(Call("avg_pool2d", (x,), shape, x.dtype, saves=(x,)))
    x = negative(x) if kind == SMALLEST else x
    places = trace.new(shape, "int64", "places of the largest")
    largest = trace.call(Call("max_pool2d", (x,), shape, x.dtype, saves=(x, places)))
    return negative(largest) if kind == SMALLEST else largest


def negative(x: Tensor) -> Tensor:
    """``-x``: saves nothing."""
    return x.trace.call(Call("neg", (x,), x.shape, x.dtype, strides=preserved(x)))


def where(condition: Tensor, x: Tensor, shape: Shape) -> Tensor:
    """Select elements of ``x`` or of its other half by a condition, which is saved (torch.where)."""
    return x.trace.call(Call("where", (x,), shape, x.dtype, saves=(condition,)))


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """``x *= mask`` in place: saves the mask."""
    call = Call("mul_", (x,), x.shape, x.dtype, saves=(mask,), shares=x.storage, strides=x.strides)
    return x.trace.call(call)


def waves(name: str, q: Tensor, r: Tensor) -> None:
    """Count ``Q Rᵀ`` of each head's query (b × i × a × h) with sines, and with cosines, of each key's position.

    ``2·2·b·i·j·a·h`` FLOPs for i queries and j keys.

    Source: Dai et al. 2020 (arXiv 2006.03236), appendix A.2.2.
    """
    b, i, a, h = q.shape
    factors = (2, b, i, r.shape[0], a, h)
    products = tuple(MatMul(f"Q R {wave}", factors, (q, r)) for wave in ("sin", "cos"))
    q.trace.count(Call(name, (q, r), q.shape, q.dtype, products=products, leaf=Leaf(name, "attend"), saves_result=True))
