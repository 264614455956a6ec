"""Operations on rows: norms and softmax."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.cost import Elementwise
from tfcalc.ops.elementwise import pointwise, power, shifted
from tfcalc.ops.work import FURTHER_NORMS, NORMS
from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor


def norm(kind: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, code: Callable[[], Tensor]) -> Tensor:
    """``(x − mean) / std · γ + β`` (LayerNorm) or ``x / rms · γ`` (RMSNorm), on each row; ``code`` is a library's.

    ====================  =======================================================================
    parameters            LayerNorm ``2h``; without bias, or RMSNorm: ``h``
    matrix products       none
    elementwise FLOPs     7, 6 or 4 per element; backward 13, 12 or 9 (per-row scalars neglected)
    ====================  =======================================================================

    Source: Ba et al. 2016 (arXiv 1607.06450), eq. 4; Zhang and Sennrich 2019 (arXiv 1910.07467), eq. 4.
    """
    _, forward, backward = (NORMS | FURTHER_NORMS)[kind]
    work = (Elementwise(kind, x.elements, forward, backward),)
    call = Call(kind, (x, weight, bias), x.shape, x.dtype, elementwise=work, saves=(x,), saves_result=True)
    return x.trace.composite(call, code)


def mean(x: Tensor) -> Tensor:
    """A number for each row: keeps nothing."""
    return x.trace.call(Call("mean", (x,), (*x.shape[:-1], 1), x.dtype))


def mean_of_rows(x: Tensor) -> Tensor:
    """The mean of each sequence's vectors: keeps nothing."""
    return x.trace.call(Call("mean", (x,), (x.shape[0], x.width), x.dtype))


def highest(x: Tensor) -> Tensor:
    """The largest number of each row, whose place is kept (torch.max)."""
    places = x.trace.new(x.shape[:-1], "int64", "places of the largest")
    return x.trace.call(Call("max", (x,), x.shape[:-1], x.dtype, saves=(places,)))


def inverse_rms(x: Tensor) -> Tensor:
    """One over the root mean square of each row, written out: keeps what is squared, and the result."""
    return pointwise("rsqrt", shifted(mean(power(x)), "+ ε"))


def row_norm(x: Tensor) -> Tensor:
    """Each row's length, which autocast makes in fp32: keeps what it reads and what it makes."""
    dtype = x.trace.upper_format(x.dtype)
    return x.trace.call(Call("linalg_vector_norm", (x,), (*x.shape[:-1], 1), dtype, saves=(x,), saves_result=True))


def whole_sum(x: Tensor, dtype: str) -> Tensor:
    """The sum of all numbers, in this format: keeps nothing."""
    return x.trace.call(Call("sum", (x,), (), dtype))


def softmax(x: Tensor, dtype: str | None = None) -> Tensor:
    """Keeps what it makes; in autocast, and where it is asked for, that is fp32.

    CUDA's kernel makes fp32 of fp16 as it reads it, and of bf16 where a copy has been made (``softmax`` in torch's
    aten/src/ATen/native/SoftMax.cpp). Its backward begins with the product of gradient and result, which is there for
    a moment (``softmax_backward_cuda_out`` in cuda/SoftMax.cu); that of the logarithm does not.
    """
    trace, dtype = x.trace, dtype or x.trace.upper_format(x.dtype)
    if trace.cuda and x.dtype == "bfloat16":
        x = trace.to(x, dtype)
    scratch = x.elements * WIDTHS[dtype] if trace.cuda else 0
    call = Call("softmax", (x,), x.shape, dtype, saves_result=True, scratch=scratch, kernels=("_softmax",))
    return trace.call(call)


def log_sum_exp(x: Tensor) -> Tensor:
    """The logarithm of each row's sum of exponentials: keeps what it reads and what it makes."""
    return x.trace.call(Call("logsumexp", (x,), (*x.shape[:-1], 1), x.dtype, saves=(x,), saves_result=True))


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """torch.nn.functional.layer_norm: keeps what it reads, and each row's mean and deviation."""
    trace = x.trace
    x = trace.upper(x)
    weight, bias = (None if each is None else trace.upper(each) for each in (weight, bias))
    kind = trace.statistics(x.dtype)
    mean, deviation = (trace.new((*x.shape[:-1], 1), kind, name) for name in ("mean", "1/std"))
    affine = tuple(each for each in (weight, bias) if each is not None)
    call = Call("layer_norm", (x, weight, bias), x.shape, x.dtype, saves=(x, mean, deviation, *affine))
    return trace.call(call._replace(kernels=("native_layer_norm",)))
