"""Kernels of DoRA: the norms of ``W + s A B``, and two results of each adapted map that are scaled by them.

Source: peft's tuners/lora/dora.py (DoraLinearLayer.forward) and tuners/lora/variants.py (DoraLinearVariant.forward).
"""

from __future__ import annotations

from tfcalc.ops.elementwise import add, mul, quotient, scaled, shifted
from tfcalc.ops.products import linear
from tfcalc.ops.rows import row_norm
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor


def by_magnitude(x: Tensor, base: Tensor | None, weight: Tensor, a: Tensor, b: Tensor, magnitude: Tensor) -> Tensor:
    """``(m/n − 1) · x W + m/n · s (x A) B`` with ``n = ‖W + s A B‖`` of each output: what is added to x W.

    ``base`` is x W where the map's own result is read; None: a second product, of this x, makes it, and saves a W in
    the format of x. The norms have no gradient. What they are made of is live until the result is: W in the format of
    x, A B, and, where gradients are recorded, an identity matrix and its product with A.
    """
    trace = x.trace
    with trace.without_gradients():
        eye = trace.new((a.shape[0], a.shape[0]), a.dtype, "identity matrix")
    a, b = trace.lower_weight(a), trace.lower_weight(b)
    with trace.without_gradients():
        eye = trace.lower(eye)
        rows = linear(eye, a)  # A B is made of the modules' own forward, on which FSDP's hooks are
        low_rank = linear(rows, b)
    made_of = (eye, rows) if trace.gradients else ()
    del eye, rows
    with trace.without_gradients():
        low_rank, weight = trace.to(low_rank, x.dtype), trace.to(weight, x.dtype)
        norms = _norms(weight, low_rank)
    ratio = reshape(quotient(magnitude, norms), 1, magnitude.width)
    update = linear(linear(x, a), b)
    base = linear(x, weight) if base is None else base
    result = add(mul(shifted(ratio, "- 1"), base), scaled(mul(ratio, update)))
    del made_of, low_rank  # until here, as the variables of DoraLinearLayer.forward and what their graph saves
    return result


def _norms(weight: Tensor, low_rank: Tensor) -> Tensor:
    """Compute the norm of each column of ``W + s A B``."""
    moved = add(weight, scaled(low_rank))
    of_columns = row_norm(transpose(moved, 0, 1))
    return reshape(weight.trace.to(of_columns, weight.dtype), moved.shape[1])
