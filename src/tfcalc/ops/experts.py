"""Products of experts with the rows routed to them, and the combination of their results."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.ops.elementwise import widest
from tfcalc.tape.tensor import Call, MatMul, Tensor


def grouped_mm(rows: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Multiply rows, sorted by expert, with the matrix of their expert, in one kernel.

    ====================  =======================================================================
    forward FLOPs         ``2·p·i·o`` for p pairs of a token and an expert
    backward FLOPs        the same for each of rows and weight that needs a gradient
    saved for backward    rows for the weight's gradient, the weight for the rows', and the groups' ``ends``
    ====================  =======================================================================

    Source: torch.nn.functional.grouped_mm (``_grouped_mm`` in torch's derivatives.yaml).
    """
    saves = (*([rows] if weight.needs_gradient else []), *([weight] if rows.needs_gradient else []), ends)
    o = weight.shape[-1]
    products = (MatMul("X W", (2, rows.rows, rows.width, o), (rows, weight), matrices=(1, rows.rows, rows.width, o)),)
    call = Call("grouped_mm", (rows, weight), (*rows.shape[:-1], o), rows.dtype, products=products, saves=saves)
    return rows.trace.call(call)


def add_in_place(x: Tensor, other: Tensor) -> Tensor:
    """``x.add_(other)``: saves nothing."""
    call = Call("add_", (x, other), x.shape, x.dtype, passes=True, shares=x.storage, strides=x.strides)
    return x.trace.call(call)


def each_by_its_own(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply rows, sorted by expert, with the matrix of their expert, one product per expert."""
    saves = (*([rows] if weight.needs_gradient else []), *([weight] if rows.needs_gradient else []))
    shape = (*rows.shape[:-1], weight.shape[-1])
    return rows.trace.call(Call("linear", (rows, weight, bias), shape, rows.dtype, saves=saves, kernels=("addmm",)))


def jittered(x: Tensor) -> Tensor:
    """Multiply ``x`` with noise in place: saves the noise."""
    noise = x.trace.new(x.shape, x.dtype, "noise")
    call = Call("mul_", (x,), x.shape, x.dtype, saves=(noise,), shares=x.storage, strides=x.strides)
    return x.trace.call(call)


def added_to_rows(made: Tensor, places: Tensor, tokens: Num, onto: Tensor | None = None) -> Tensor:
    """``index_add_`` to zeros of ``tokens`` rows, or ``onto`` others: saves the indices, and the added rows."""
    call = Call("index_add_", (made, onto), (tokens, made.width), made.dtype, saves=(places, made))
    return made.trace.call(call if onto is None else call._replace(shares=onto.storage))


def combined(made: Tensor, weights: Tensor) -> Tensor:
    """``Σ w_e · expert_e(x)`` over the experts e of a token; neither products nor sums are counted.

    Source: Shazeer et al. 2017 (arXiv 1701.06538), eq. 1.
    """
    dtype = widest(made.dtype, weights.dtype)
    return made.trace.call(Call("combined", (made, weights), made.shape, dtype, saves=(made, weights)))


def summed(x: Tensor, tokens: Num) -> Tensor:
    """Sum the rows of each token; autocast does so in fp32."""
    return x.trace.call(Call("sum", (x,), (tokens, x.width), x.trace.upper_format(x.dtype)))
