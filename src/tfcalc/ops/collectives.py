"""Operations of several devices together: each has a mirror, which runs in backward.

==================  ====================  =========================================================
operation           its mirror            of a tensor of S numbers, each of n devices sends
==================  ====================  =========================================================
all-reduce          nothing               ``2(n − 1)/n · S``: what each made is summed for all
nothing             all-reduce            the same
all-gather          reduce-scatter        ``(n − 1)/n · S``: a share of each, brought together for all
reduce-scatter      all-gather            the same: summed, and each has its share of the sum
==================  ====================  =========================================================

Source: Shoeybi et al. 2019 (arXiv 1909.08053), section 3: f and g; Korthikanti et al. 2022 (arXiv 2205.05198), section
4.2.2: g and ḡ; NCCL's ring algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.core.cost import Elementwise, Message
from tfcalc.core.number import Num, divide, product, total
from tfcalc.number_formats import FP32, INT64
from tfcalc.ops.work import CROSS_ENTROPY
from tfcalc.tape.call import Call, Leaf
from tfcalc.tape.tensor import Shape, Tensor

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND = "all-reduce", "all-gather", "reduce-scatter", "send"
COLLECTIVE = "collective"


def copied_to_all(x: Tensor, devices: Num) -> Tensor:
    """f: all devices have ``x``; each makes a part of its gradient, and they sum these."""
    message = Message(ALL_REDUCE, devices, x.elements, forward=0, backward=1)
    call = Call("copy", (x,), x.shape, x.dtype, leaf=_leaf("input"), shares=x.storage, strides=x.strides)
    return x.trace.call(call._replace(messages=(message,), passes=True, kernels=()))


def summed_over_all(x: Tensor, devices: Num) -> Tensor:
    """g: what the devices made is summed, where it stands; each has the whole gradient."""
    message = Message(ALL_REDUCE, devices, x.elements, forward=1, backward=0)
    call = Call("all_reduce", (x,), x.shape, x.dtype, leaf=_leaf("output"), shares=x.storage, strides=x.strides)
    return x.trace.call(call._replace(messages=(message,), passes=True))


def gathered_sequence(x: Tensor, devices: Num, *, again: bool = True) -> Tensor:
    """G of sequence parallelism: the tokens of all devices, of which each has a share.

    What reads them keeps the share alone, and backward gathers them once more for the gradient of its weights
    (``again``: Megatron-LM); or it keeps what was gathered (DTensor).
    """
    call = _gathering(x, _with_axis(x, 1, x.shape[1] * devices), devices, "input", again=again)
    return x.trace.call(call._replace(kept_as=x.storage if again else None))


def scattered_sum(x: Tensor, devices: Num) -> Tensor:
    """ḡ of sequence parallelism: what the devices made is summed, and each has its share of the tokens."""
    messages = (
        Message(REDUCE_SCATTER, devices, x.elements, forward=1, backward=0),
        Message(ALL_GATHER, devices, x.elements, forward=0, backward=1),
    )
    shape = _with_axis(x, 1, divide(x.shape[1], devices))
    return x.trace.call(Call("reduce_scatter", (x,), shape, x.dtype, leaf=_leaf("output"), messages=messages))


def own_share(x: Tensor, devices: Num) -> Tensor:
    """Each device's share of tokens that all have; their gradients are gathered."""
    message = Message(ALL_GATHER, devices, x.elements, forward=0, backward=1)
    shape = _with_axis(x, 1, divide(x.shape[1], devices))
    return x.trace.call(Call("scatter", (x,), shape, x.dtype, leaf=_leaf("share"), messages=(message,)))


def gathered_columns(parts: Sequence[Tensor], devices: Num) -> Tensor:
    """What all devices made of the same tokens, side by side."""
    width = total(part.width for part in parts) * devices
    return parts[0].trace.call(_gathering(parts[0], (*parts[0].shape[:-1], width), devices, "heads", parts))


def received(x: Tensor) -> Tensor:
    """What another stage has made, which has memory of its own here."""
    return x.trace.call(Call("receive", (x,), x.shape, x.dtype, passes=True, kernels=()))


def handed_on(x: Tensor, forward: Num, backward: Num) -> Tensor:
    """Vectors that the next stage reads so many times, as the one before reads their gradients."""
    message = Message(SEND, 2, x.elements, forward, backward)
    call = Call("send", (x,), x.shape, x.dtype, leaf=_leaf("stage"), shares=x.storage, strides=x.strides, passes=True)
    return x.trace.call(call._replace(messages=(message,), kernels=()))


def cross_entropy_of_shares(logits: Tensor, name: str, devices: Num, code: Callable[[], Tensor]) -> Tensor:
    """``−log softmax(logits)[next token]`` where each device has the logits of some words.

    They agree on each token's largest logit, on that of its target, and on the sum of exponentials: three numbers a
    token, each by an all-reduce.

    Source: Megatron-LM's ``vocab_parallel_cross_entropy``; torch.distributed.tensor.parallel.loss_parallel.
    """
    work = (Elementwise("cross-entropy", logits.elements, *CROSS_ENTROPY),)
    agreed = Message(ALL_REDUCE, devices, logits.rows, forward=3, backward=0, bits=FP32.bits)
    call = Call("cross_entropy", (logits,), (), FP32.torch, elementwise=work, leaf=Leaf(name, "loss"))
    return logits.trace.composite(call._replace(messages=(agreed,)), code)


def of_copy(logits: Tensor) -> Tensor:
    """The loss of a copy of the logits in fp32, which is kept.

    Source: Korthikanti et al. 2022, section 4.3: "the cross entropy loss requires storing the logits which are
    calculated in 32-bit floating point".
    """
    copy = logits.trace.call(Call("logits", (logits,), logits.shape, FP32.torch, kernels=("_to_copy",)))
    return logits.trace.call(Call("cross_entropy", (copy,), (), FP32.torch, saves=(copy,)))


def of_logarithms(logits: Tensor) -> Tensor:
    """The loss of the logarithms of the softmax over all devices' words, which are kept, in fp32.

    Beside the logits' copy there are for a moment those less the largest; in backward the softmax itself.

    Source: torch.distributed.tensor.parallel.loss (``_log_softmax``, ``_nll_loss_and_log_softmax_backward``).
    """
    trace = logits.trace
    copy = trace.to(logits, FP32.torch)
    size = copy.elements * (FP32.bits // 8)
    trace.needed(2 * size)
    logarithms = Call("log_softmax", (copy,), copy.shape, FP32.torch, saves_result=True, scratch=size)
    made = trace.call(logarithms)
    labels = trace.new(logits.shape[:-1], INT64.torch, "labels")
    return trace.call(Call("nll_loss", (made,), (), FP32.torch, saves=(made, labels)))


def _gathering(
    x: Tensor, shape: Shape, devices: Num, name: str, parts: Sequence[Tensor] = (), *, again: bool = False
) -> Call:
    elements = product(shape)
    messages = (
        Message(ALL_GATHER, devices, elements, forward=1, backward=1 if again else 0),
        Message(REDUCE_SCATTER, devices, elements, forward=0, backward=1),
    )
    return Call("all_gather", tuple(parts) or (x,), shape, x.dtype, leaf=_leaf(name), messages=messages)


def _with_axis(x: Tensor, axis: int, size: Num) -> Shape:
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])


def _leaf(name: str) -> Leaf:
    return Leaf(name, COLLECTIVE)
