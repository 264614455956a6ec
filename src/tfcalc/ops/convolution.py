"""Convolutions over time, and of patches of images."""

from __future__ import annotations

from tfcalc.core.component import Cached, Elementwise
from tfcalc.core.number import Num, product
from tfcalc.ops.shapes import contiguous, part, transpose
from tfcalc.tape.tensor import Call, MatMul, Tensor


def causal_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, cached: tuple[Cached, ...] = (), step: bool = False
) -> Tensor:
    """``y = w ∗ x + b``, a depthwise convolution over the last k tokens: x of b × c × l, w of c × 1 × k.

    ====================  =======================================================================
    parameters            ``c·k + c`` (without bias ``c·k``)
    forward FLOPs         ``2·b·(l + k − 1)·c·k``: the sequence is padded on both sides, and the surplus cut off
    of a decoding step    ``2·b·2·c·k``: the cache has k tokens, and with the new one the kernel fits in two places
    backward FLOPs        twice that, and c − 1 times more by FlopCounterMode, which ignores the groups of w
    saved for backward    x for w's gradient, w for x's; the result is a view of a longer tensor
    ====================  =======================================================================

    Source: Gu and Dao 2023 (Mamba, arXiv 2312.00752), section 3.4; torch.nn.Conv1d with ``padding=kernel - 1``;
    transformers' causal_conv1d_fn and causal_conv1d_update; torch.utils.flop_counter.conv_flop_count.
    """
    trace, (b, c, l), k = x.trace, x.shape, weight.shape[-1]
    x, weight = trace.lower(x), trace.lower_weight(weight)
    bias = trace.lower_weight(bias) if bias is not None else None
    places: Num = 2 if step else l + k - 1
    call = Call(
        "conv1d",
        (x, weight, bias),
        (b, c, places),
        x.dtype,
        products=(MatMul("w ∗ x", (2, b * places, c, 1, k), (x, weight), overcounted=c - 1),),
        elementwise=_bias(b * places * c) if bias is not None else (),
        cached=cached,
        saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
    )
    return part(trace.call(call), 2, l)


def summed_step(x: Tensor, weight: Tensor, bias: Tensor | None, *, cached: tuple[Cached, ...] = ()) -> Tensor:
    """``Σ w·x + b``: a depthwise convolution of one token over its cache, elementwise instead of as a kernel."""
    b, c, _ = x.shape
    work = Elementwise("Σ w·x", b * c * weight.shape[-1], forward=2, backward=4)
    elementwise = (work, *(_bias(b * c) if bias is not None else ()))
    call = Call("Σ w·x", (x, weight, bias), x.shape, x.dtype, elementwise=elementwise, cached=cached, saves=(x, weight))
    return x.trace.call(call)


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, places: Num, groups: Num = 1) -> Tensor:
    """``y = w ∗ x + b`` of images: each of ``places`` is a linear map of the input under the kernel.

    With ``groups``, i is the number of input channels of one group.

    ====================  =======================================================================
    parameters            ``o·i·k + o`` (without bias ``o·i·k``), k all numbers under the kernel
    forward FLOPs         ``2·b·places·o·i·k``
    backward FLOPs        as many for w's gradient, and for x's if it needs one (pixels do not); FlopCounterMode
                          counts the first once for each group
    saved for backward    x for w's gradient, w for x's
    ====================  =======================================================================

    x of b × i × …, w of o × i × …, y of b × o × places.

    Source: torch.nn.Conv2d; torch.utils.flop_counter.conv_flop_count.
    """
    trace, b, (o, i, *kernel) = x.trace, x.shape[0], weight.shape
    x, weight = trace.lower(x), trace.lower_weight(weight)
    bias = trace.lower_weight(bias) if bias is not None else None
    call = Call(
        "conv",
        (x, weight, bias),
        (b, o, places),
        x.dtype,
        products=(MatMul("w ∗ x", (2, b * places, o, i, product(kernel)), (x, weight), overcounted=groups - 1),),
        elementwise=_bias(b * places * o) if bias is not None else (),
        saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
        kernels=("convolution",),
    )
    return trace.call(call)


def _bias(elements: Num) -> tuple[Elementwise, ...]:
    return (Elementwise("+ b", elements, forward=1, backward=1),)


def same_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """``y = w ∗ x``, a depthwise convolution centred on each token: x and y of b × c × l, w of c × 1 × k.

    It costs ``2·b·l·c·k`` FLOPs, backward as above. Source: torch.nn.Conv1d with ``padding=k // 2``, k odd.
    """
    trace, (b, c, l), k = x.trace, x.shape, weight.shape[-1]
    x, weight = trace.lower(x), trace.lower_weight(weight)
    return trace.call(
        Call(
            "conv1d",
            (x, weight),
            (b, c, l),
            x.dtype,
            products=(MatMul("w ∗ x", (2, b * l, c, 1, k), (x, weight), overcounted=c - 1),),
            saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
            kernels=("convolution",),
        )
    )


def head_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """``y = w ∗ x`` over tokens, with one kernel per head: x and y of b × a × l × d, w of a × 1 × k × 1.

    It is centred on each token, and costs ``2·b·l·d·a·k`` FLOPs, backward as above.

    Source: torch.nn.Conv2d with ``groups`` for the heads.
    """
    trace, (b, a, l, d), k = x.trace, x.shape, weight.shape[2]
    x, weight = trace.lower(x), trace.lower_weight(weight)
    return trace.call(
        Call(
            "conv2d",
            (x, weight),
            x.shape,
            x.dtype,
            products=(MatMul("w ∗ x", (2, b * l * d, a, 1, k), (x, weight), overcounted=a - 1),),
            saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
            kernels=("convolution",),
        )
    )


def time_convolution(x: Tensor, weight: Tensor, bias: Tensor, groups: Num) -> Tensor:
    """``y = w ∗ x + b`` in ``groups``: x and y of b × l × c; copies to b × c × l for the kernel, and back.

    ====================  =======================================================================
    parameters            ``c·c/g·k + c``
    forward FLOPs         ``2·b·l·c·c/g·k``
    backward FLOPs        twice that, and g − 1 times more by FlopCounterMode
    saved for backward    the copy for w's gradient, w for x's
    ====================  =======================================================================

    Source: torch.nn.Conv1d with ``padding=(k - 1) // 2``, k odd; transformers' ConvLayer (DeBERTa).
    """
    trace, (b, l, _), (o, i, k) = x.trace, x.shape, weight.shape
    x = contiguous(transpose(trace.lower(x), 1, 2))
    weight, bias = trace.lower_weight(weight), trace.lower_weight(bias)
    call = Call(
        "conv1d",
        (x, weight, bias),
        (b, o, l),
        x.dtype,
        products=(MatMul("w ∗ x", (2, b * l, o, i, k), (x, weight), overcounted=groups - 1),),
        elementwise=_bias(b * l * o),
        saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
        kernels=("convolution",),
    )
    return contiguous(transpose(trace.call(call), 1, 2))


def map_of_pixels(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolve pixels with a 1 × 1 kernel: x of b × pixels × i, w of o × i × 1 × 1; ``2·b·pixels·o·i`` FLOPs.

    Source: torch.nn.Conv2d with ``kernel_size=(1, 1)``.
    """
    trace, (b, l, _), (o, i, *_) = x.trace, x.shape, weight.shape
    x, weight, bias = trace.lower(x), trace.lower_weight(weight), trace.lower_weight(bias)
    call = Call(
        "conv2d",
        (x, weight, bias),
        (b, l, o),
        x.dtype,
        products=(MatMul("w ∗ x", (2, b * l, o, i, 1), (x, weight)),),
        elementwise=_bias(b * l * o),
        saves=(*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])),
        kernels=("convolution",),
    )
    return trace.call(call)
