"""Operations on audio: convolutions, pooling and norms over frames of a spectrogram, or over samples."""

from __future__ import annotations

from tfcalc.core.component import Elementwise
from tfcalc.core.number import Num, divide, product
from tfcalc.ops.elementwise import activation
from tfcalc.ops.work import NORMS
from tfcalc.tape.tensor import Call, MatMul, Tensor


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *places: Num) -> Tensor:
    """``y = w ∗ x + b``: x of b × i × …, w of o × i/groups × taps, y of b × o × ``places`` (the size of each axis).

    ====================  =======================================================================
    parameters            ``o·(i/groups)·k + o`` (without bias ``o·(i/groups)·k``), k all taps of the kernel
    forward FLOPs         ``2·b·places·o·(i/groups)·k``
    backward FLOPs        twice that: one product for w's gradient, one for x's (none if x is data); FlopCounterMode
                          ignores the groups of w's, and counts it ``groups`` times
    saved for backward    x and w, whichever of them needs a gradient
    ====================  =======================================================================

    Source: torch.nn.Conv1d and Conv2d; torch.utils.flop_counter.conv_flop_count.
    """
    trace, (b, i), (o, read, *taps) = x.trace, x.shape[:2], weight.shape
    x, weight = trace.lower(x), trace.lower_weight(weight)
    bias = trace.lower_weight(bias) if bias is not None else None
    positions = b * product(places)
    factors = (2, positions, o, read, product(taps))
    call = Call(
        "convolution",
        (x, weight, bias),
        (b, o, *places),
        x.dtype,
        products=(MatMul("w ∗ x", factors, (x, weight), overcounted=divide(i, read) - 1),),
        elementwise=(Elementwise("+ b", positions * o, forward=1, backward=1),) if bias is not None else (),
        saves=(x, weight),
    )
    return trace.call(call)


def means(x: Tensor, places: Num) -> Tensor:
    """Average neighbours along the last axis, down to ``places``: saves its input (torch.avg_pool1d)."""
    return x.trace.call(Call("avg_pool1d", (x,), (*x.shape[:-1], places), x.dtype, saves=(x,)))


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``(x − mean) / std · γ + β`` of b × c × n, with one mean and deviation for all elements of a sequence.

    It has LayerNorm's number of operations; saves its input, means and deviations (torch.nn.functional.group_norm).
    """
    trace = x.trace
    x = trace.upper(x)
    _, forward, backward = NORMS["layernorm"]
    work = (Elementwise("layernorm", x.elements, forward, backward),)
    statistics = [trace.new((x.shape[0],), x.dtype, name) for name in ("mean", "1/std")]
    call = Call("group_norm", (x, weight, bias), x.shape, x.dtype, elementwise=work, saves=(x, *statistics, weight))
    return trace.call(call._replace(kernels=("native_group_norm",)))


def mean(x: Tensor) -> Tensor:
    """Average b × n × h over its n places: saves nothing."""
    return x.trace.call(Call("mean", (x,), (x.shape[0], x.shape[2]), x.dtype))


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """``(x − mean) / std · γ + β`` of b × c × n, by running mean and variance of each channel.

    ====================  =======================================================================
    parameters            ``2·c``
    buffers               ``2·c + 1``: means, variances, and the number of batches
    elementwise FLOPs     4 per element; backward 13 as LayerNorm's, for training uses the batch's mean and variance
    saved for backward    x, γ, the buffers, and the batch's own means and deviations
    ====================  =======================================================================

    Source: Ioffe and Szegedy 2015 (arXiv 1502.03167), algorithm 1; torch.nn.BatchNorm1d and BatchNorm2d.
    """
    trace = x.trace
    work = (Elementwise("batch norm", x.elements, forward=4, backward=13),)
    own = [trace.new((x.shape[1],), means.dtype, name) for name in ("mean", "1/std")]
    call = Call("batch_norm", (x, weight, bias), x.shape, x.dtype, elementwise=work)
    return trace.call(call._replace(saves=(x, weight, means, variances, *own), kernels=("native_batch_norm",)))


def gated_by_half(x: Tensor) -> Tensor:
    """Gate one half of the channels of b × 2c × n by the sigmoid of the other: saves its input (torch's glu)."""
    shape = (x.shape[0], divide(x.shape[1], 2), x.shape[2])
    return x.trace.call(Call("glu", (x,), shape, x.dtype, saves=(x,)))


def gated_halves(x: Tensor, name: str) -> Tensor:
    """Gate half of each row by the sigmoid of the other half: saves its input (torch.nn.functional.glu).

    Source: Dauphin et al. 2017 (arXiv 1612.08083), eq. 1.
    """
    half = (*x.shape[:-1], divide(x.width, 2))
    glu = Call("glu", (x,), half, x.dtype, saves=(x,))
    return activation("sigmoid", x.trace.view(x, half, None), lambda: x.trace.call(glu), name)
