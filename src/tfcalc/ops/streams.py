"""Several residual streams of each token."""

from __future__ import annotations

from tfcalc.core.number import product
from tfcalc.ops.products import batched
from tfcalc.ops.shapes import reshape
from tfcalc.tape.call import Call, Leaf, MatMul
from tfcalc.tape.tensor import Tensor


def mixed_streams(x: Tensor, matrices: Tensor, name: str) -> Tensor:
    """``Hᵀ X``: each token's n × n matrix times its n residual vectors; x is of b × l × h × n.

    ====================  =======================================================================
    parameters            none: the matrix is made of the token
    forward FLOPs         ``2·t·n·n·h``
    backward FLOPs        twice that
    kept for backward     both
    ====================  =======================================================================

    Source: Xie et al. 2025 (mHC, arXiv 2512.24880), eq. 3; transformers' Gemma3nTextAltUp.
    """
    trace, shape, n = x.trace, x.shape, x.width
    factors = (2, product(shape[:-2]), n, n, shape[-2])
    x, matrices = batched(trace.lower(x)), batched(trace.lower(matrices))
    saves = (*([x] if matrices.needs_gradient else []), *([matrices] if x.needs_gradient else []))
    made = Call("matmul", (x, matrices), (*x.shape[:-1], matrices.width), x.dtype, saves=saves, kernels=("bmm",))
    mixing = MatMul("Hᵀ X", factors, (x, matrices))
    return reshape(trace.call(made._replace(products=(mixing,), leaf=Leaf(name, "mixing"))), *shape)


def added_in_place(x: Tensor, other: Tensor) -> Tensor:
    """``x += other``, which may have another format, or be there once for several parts of ``x``: keeps nothing."""
    call = Call("add_", (x, other), x.shape, x.dtype, passes=True, shares=x.storage, strides=x.strides)
    return x.trace.call(call)


def added_to_others(x: Tensor, other: Tensor) -> Tensor:
    """The same to all but the first stream; the gradient of a part of ``x`` is put together anew."""
    return x.trace.call(Call("add_", (x, other), x.shape, x.dtype, shares=x.storage, strides=x.strides))
