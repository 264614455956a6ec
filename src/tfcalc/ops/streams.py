"""Mixing of several residual streams per token."""

from __future__ import annotations

from tfcalc.core.number import product
from tfcalc.ops.products import batched
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Call, Leaf, MatMul, Tensor


def mixed_streams(x: Tensor, matrices: Tensor, name: str) -> Tensor:
    """``Hᵀ X``: each token's n × n matrix times its n residual vectors; x is of b × l × h × n.

    ====================  =======================================================================
    parameters            none: the matrix is computed from the token
    forward FLOPs         ``2·t·n·n·h``
    backward FLOPs        twice that
    saved for backward    both
    ====================  =======================================================================

    Source: Xie et al. 2025 (mHC, arXiv 2512.24880), eq. 3; transformers' Gemma3nTextAltUp.
    """
    trace, shape, n = x.trace, x.shape, x.width
    factors = (2, product(shape[:-2]), n, n, shape[-2])
    x, matrices = batched(trace.lower(x)), batched(trace.lower(matrices))
    saves = (*([x] if matrices.needs_gradient else []), *([matrices] if x.needs_gradient else []))
    call = Call("matmul", (x, matrices), (*x.shape[:-1], matrices.width), x.dtype, saves=saves, kernels=("bmm",))
    mixing = MatMul("Hᵀ X", factors, (x, matrices))
    return reshape(trace.call(call._replace(products=(mixing,), leaf=Leaf(name, "mixing"))), *shape)


def added_to_others(x: Tensor, other: Tensor) -> Tensor:
    """``x += other`` for all but the first stream; backward makes a new gradient of all streams."""
    return x.trace.call(Call("add_", (x, other), x.shape, x.dtype, shares=x.storage, strides=x.strides))


def collapsed(x: Tensor) -> Tensor:
    """Sum the streams of each token: saves nothing."""
    return x.trace.call(Call("sum", (x,), (*x.shape[:2], x.width), x.trace.upper_format(x.dtype)))


def sums(x: Tensor, axis: int) -> Tensor:
    """Sum rows (-1) or columns (-2), keeping the axis: saves nothing."""
    shape = list(x.shape)
    shape[axis] = 1
    return x.trace.call(Call("sum", (x,), tuple(shape), x.trace.upper_format(x.dtype)))


def mixed(h: Tensor, x: Tensor) -> Tensor:
    """``Hᵀ X``: each token's n × n matrix times its n residual vectors.

    ====================  =======================================================================
    parameters            none: the matrix is computed from the token
    forward FLOPs         ``2·t·n·n·h``
    backward FLOPs        twice that
    ====================  =======================================================================

    Source: Xie et al. 2025 (mHC, arXiv 2512.24880), eq. 3; transformers' DeepseekV4DecoderLayer.
    """
    trace, (b, l, n, width) = x.trace, x.shape
    h, x = batched(trace.lower(transpose(h, -1, -2))), batched(trace.lower(x))
    mixing = MatMul("Hᵀ X", (2, b * l, n, n, width), (h, x))
    saves = (*([h] if x.needs_gradient else []), *([x] if h.needs_gradient else []))
    call = Call("matmul", (h, x), (b * l, n, width), x.dtype, products=(mixing,), saves=saves, kernels=("bmm",))
    return reshape(trace.call(call._replace(leaf=Leaf("mix", "mixing"))), b, l, n, width)
