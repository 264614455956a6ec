"""Linear maps that mix only the channels of a group."""

from __future__ import annotations

from tfcalc.core.cost import Elementwise
from tfcalc.core.number import Num
from tfcalc.ops.elementwise import widest
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import permute, reshape
from tfcalc.tape.call import Call, MatMul
from tfcalc.tape.tensor import Strides, Tensor, dense


def pointwise_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, groups: Num) -> Tensor:
    """``y = x W + b`` in ``groups``, as a convolution over one token: x of b × l × i, w of o × i/g × 1.

    ====================  =======================================================================
    parameters            ``o·i/g + o``
    forward FLOPs         ``2·t·o·i/g`` for t tokens
    backward FLOPs        twice that, and g − 1 times more by PyTorch's counter, which forgets the groups of w's
    kept for backward     x for w's gradient, w for x's; the result lies in memory channel by channel
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
    """The same as a product of matrices for each group: x of b × l × i, w of g × i/g × o/g.

    Its gradients are two such products. Source: transformers' GroupedLinearLayer (ConvBERT).
    """
    g, i, o = weight.shape
    rows = permute(reshape(x, x.rows, g, i), (1, 0, 2))
    made = permute(matmul(rows, weight, "w ∗ x"), (1, 0, 2))
    return biased(reshape(made, *x.shape[:-1], g * o), bias)


def biased(x: Tensor, bias: Tensor) -> Tensor:
    """``x + b``, an addition for each number, and one for its gradient: keeps nothing."""
    work = (Elementwise("+ b", x.elements, forward=1, backward=1),)
    return x.trace.call(Call("add", (x, bias), x.shape, widest(x.dtype, bias.dtype), elementwise=work, passes=True))


def by_channel(b: Num, l: Num, c: Num) -> Strides:
    """The strides of b × l × c that lies in memory as b × c × l."""
    strides = dense((b, c, l))
    return None if strides is None else (strides[0], strides[2], strides[1])
