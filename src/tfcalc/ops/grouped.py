"""Linear maps in groups of channels."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num
from tfcalc.ops.elementwise import widest
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import permute, reshape
from tfcalc.tape.tensor import Call, MatMul, Strides, Tensor, dense


def pointwise_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, groups: Num) -> Tensor:
    """``y = x W + b`` in ``groups``, as a convolution with kernel size 1: x of b × l × i, w of o × i/g × 1.

    ====================  =======================================================================
    parameters            ``o·i/g + o``
    forward FLOPs         ``2·t·o·i/g`` for t tokens
    backward FLOPs        twice that, and g − 1 times more by FlopCounterMode, which ignores the groups of w's
    saved for backward    x for w's gradient, w for x's; the result's layout is b × o × l
    ====================  =======================================================================

    Source: torch.nn.Conv1d with ``kernel_size=1``; torch.utils.flop_counter.conv_flop_count.
    """
    trace, (b, l, _), (o, i, _) = x.trace, x.shape, weight.shape
    x, weight = trace.lower(x), trace.lower_weight(weight)
    bias = trace.lower_weight(bias) if bias is not None else None
    added = (Elementwise("+ b", b * l * o, forward=1, backward=1),) if bias is not None else ()
    call = Call(
        "conv1d",
        (x, weight, bias),
        (b, l, o),
        x.dtype,
        products=(MatMul("w ∗ x", (2, b * l, o, i, 1), (x, weight), overcounted=groups - 1),),
        elementwise=added,
        saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
        strides=by_channel(b, l, o),
        kernels=("convolution",),
    )
    return trace.call(call)


def grouped_product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``y = x W + b`` in groups, as one matrix product per group: x of b × l × i, w of g × i/g × o/g.

    Source: transformers' GroupedLinearLayer (ConvBERT).
    """
    g, i, o = weight.shape
    rows = permute(reshape(x, x.rows, g, i), (1, 0, 2))
    mapped = permute(matmul(rows, weight, "w ∗ x"), (1, 0, 2))
    return biased(reshape(mapped, *x.shape[:-1], g * o), bias)


def biased(x: Tensor, bias: Tensor) -> Tensor:
    """``x + b``: 1 addition per element, and 1 for b's gradient: saves nothing."""
    work = (Elementwise("+ b", x.elements, forward=1, backward=1),)
    return x.trace.call(Call("add", (x, bias), x.shape, widest(x.dtype, bias.dtype), elementwise=work, passes=True))


def by_channel(b: Num, l: Num, c: Num) -> Strides:
    """Return the strides of b × l × c whose layout in memory is b × c × l."""
    strides = dense((b, c, l))
    return None if strides is None else (strides[0], strides[2], strides[1])
