"""Collective operations of several GPUs, each with the one that runs in backward.

==================  ====================  =========================================================
forward             backward              elements that each of n GPUs sends, of a tensor of S
==================  ====================  =========================================================
all-reduce          nothing               ``2(n − 1)/n · S``: all GPUs get the sum of all parts
nothing             all-reduce            ``2(n − 1)/n · S``
all-gather          reduce-scatter        ``(n − 1)/n · S``: all GPUs get the shards of all
reduce-scatter      all-gather            ``(n − 1)/n · S``: each GPU gets its shard of the sum
all-to-all          all-to-all            ``(n − 1)/n · S``: each GPU has a part for each
==================  ====================  =========================================================

Source: Shoeybi et al. 2019 (arXiv 1909.08053), section 3: f and g; Korthikanti et al. 2022 (arXiv 2205.05198), section
4.2.2: g and ḡ; NCCL's ring algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfcalc.core.component import Elementwise, Message
from tfcalc.core.number import Num, divide, product, total
from tfcalc.core.traced import known
from tfcalc.number_formats import FP32, INT64
from tfcalc.ops.work import CROSS_ENTROPY
from tfcalc.tape.tensor import Call, Leaf, Shape, Tensor

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND = "all-reduce", "all-gather", "reduce-scatter", "send"
ALL_TO_ALL = "all-to-all"
PIPELINE, CONTEXT, EXPERT, EXPERT_TENSOR = "pipeline", "context", "expert", "expert tensor"
"""Groups of GPUs, by what they share, beside that of tensor parallelism."""
COLLECTIVE = "collective"


def copied_to_all(x: Tensor, devices: Num) -> Tensor:
    """Enter tensor parallelism (Megatron's f): all GPUs have ``x``; backward all-reduces its gradient."""
    message = Message(ALL_REDUCE, devices, x.elements, forward=0, backward=1)
    call = Call("copy", (x,), x.shape, x.dtype, leaf=_leaf("input"), shares=x.storage, strides=x.strides)
    return x.trace.call(call._replace(messages=(message,), passes=True, kernels=()))


def summed_over_all(x: Tensor, devices: Num) -> Tensor:
    """Leave tensor parallelism (Megatron's g): all-reduce the partial results in place; no backward."""
    message = Message(ALL_REDUCE, devices, x.elements, forward=1, backward=0)
    call = Call("all_reduce", (x,), x.shape, x.dtype, leaf=_leaf("output"), shares=x.storage, strides=x.strides)
    return x.trace.call(call._replace(messages=(message,), passes=True))


def gathered_sequence(x: Tensor, devices: Num, *, again: bool = True) -> Tensor:
    """Enter sequence parallelism (Megatron's g): all-gather the tokens, of which each GPU has a shard.

    The operation that reads them saves the shard alone, and backward gathers them once more for the gradient of its
    weights (``again``: Megatron-LM); or it saves all gathered tokens (DTensor).
    """
    call = _gathering(x, _with_axis(x, 1, x.shape[1] * devices), devices, "input", again=again)
    return x.trace.call(call._replace(kept_as=x.storage if again else None))


def scattered_sum(x: Tensor, devices: Num) -> Tensor:
    """Leave sequence parallelism (Megatron's ḡ): reduce-scatter the partial results over tokens."""
    messages = (
        Message(REDUCE_SCATTER, devices, x.elements, forward=1, backward=0),
        Message(ALL_GATHER, devices, x.elements, forward=0, backward=1),
    )
    shape = _with_axis(x, 1, divide(x.shape[1], devices))
    return x.trace.call(Call("reduce_scatter", (x,), shape, x.dtype, leaf=_leaf("output"), messages=messages))


def own_share(x: Tensor, devices: Num) -> Tensor:
    """Take each GPU's shard of tokens that all have; backward all-gathers the gradients."""
    message = Message(ALL_GATHER, devices, x.elements, forward=0, backward=1)
    shape = _with_axis(x, 1, divide(x.shape[1], devices))
    return x.trace.call(Call("scatter", (x,), shape, x.dtype, leaf=_leaf("share"), messages=(message,)))


def gathered_columns(parts: Sequence[Tensor], devices: Num) -> Tensor:
    """Gather columns that the GPUs computed for the same tokens, by an all-gather."""
    width = total(part.width for part in parts) * devices
    return parts[0].trace.call(_gathering(parts[0], (*parts[0].shape[:-1], width), devices, "heads", parts))


def joined_columns(x: Tensor, devices: Num) -> Tensor:
    """Gather columns of which each GPU has computed some, for what each does as a whole; backward takes its own.

    Source: Megatron-LM's ``gather_from_tensor_model_parallel_region``.
    """
    shape = (*x.shape[:-1], x.width * devices)
    message = Message(ALL_GATHER, devices, product(shape), forward=1, backward=0)
    return x.trace.call(Call("all_gather", (x,), shape, x.dtype, leaf=_leaf("columns"), messages=(message,)))


def gathered_tokens(x: Tensor, devices: Num) -> Tensor:
    """Gather tokens that no weight reads; backward reduce-scatters their gradients."""
    return x.trace.call(_gathering(x, _with_axis(x, 1, x.shape[1] * devices), devices, "tokens"))


def dropped_duplicates(x: Tensor, chosen: Num, devices: Num) -> Tensor:
    """Take each GPU's share of tokens that all have, before they go to experts; backward all-gathers gradients.

    What is gathered is a row for each of the ``chosen`` experts of a token, here and in :func:`regained_duplicates`.

    Source: DeepSpeed's moe/sharded_moe.py (``MOELayer``), which drops tokens where experts have no tensor parallelism,
    and moe/mappings.py (``drop_tokens``, ``gather_tokens``).
    """
    message = Message(ALL_GATHER, devices, x.elements * chosen, forward=0, backward=1)
    shape = _with_axis(x, 1, divide(x.shape[1], devices))
    return x.trace.call(Call("scatter", (x,), shape, x.dtype, leaf=_leaf("share"), messages=(message,)))


def regained_duplicates(x: Tensor, chosen: Num, devices: Num) -> Tensor:
    """Gather what experts made of the tokens of all GPUs; backward takes each GPU's own."""
    shape = _with_axis(x, 1, x.shape[1] * devices)
    message = Message(ALL_GATHER, devices, product(shape) * chosen, forward=1, backward=0)
    return x.trace.call(Call("all_gather", (x,), shape, x.dtype, leaf=_leaf("tokens"), messages=(message,)))


def sent_to_experts(x: Tensor, chosen: Num, experts: Num, groups: Num, sharing: Num) -> Tensor:
    """Send each row to its ``chosen`` experts, which ``groups`` of GPUs have; those ``sharing`` them gather the rows.

    The load is balanced: each GPU receives as many rows as it sends. With each goes its weight, in fp32; before them
    all GPUs tell each other how many rows each of all ``experts`` gets from them.

    Source: Megatron-LM's ``MoEAlltoAllTokenDispatcher``.
    """
    rows = x.rows * chosen
    counts = Message(
        ALL_GATHER, groups * sharing, experts * groups * sharing, forward=1, backward=0, bits=INT64.bits, group=EXPERT
    )
    messages = [counts] if known(groups * sharing) != 1 else []
    if known(groups) != 1:
        messages += [_exchange(groups, rows * x.width), _exchange(groups, rows, FP32.bits)]
    if known(sharing) != 1:
        messages += _gathering_rows(sharing, rows * x.width)
        messages += _gathering_rows(sharing, rows, FP32.bits)
    shape = _with_axis(x, 0, x.shape[0] * sharing)
    return x.trace.call(Call("dispatch", (x,), shape, x.dtype, leaf=_leaf("dispatch"), messages=tuple(messages)))


def sent_back(x: Tensor, chosen: Num, groups: Num, sharing: Num) -> Tensor:
    """Sum the shares of those that share an expert, and send each row back to where its token is."""
    shape = _with_axis(x, 0, divide(x.shape[0], sharing))
    rows = shape[0] * chosen
    messages: list[Message] = []
    if known(sharing) != 1:
        elements = rows * sharing * x.width
        messages += [
            Message(REDUCE_SCATTER, sharing, elements, forward=1, backward=0, group=EXPERT_TENSOR),
            Message(ALL_GATHER, sharing, elements, forward=0, backward=1, group=EXPERT_TENSOR),
        ]
    if known(groups) != 1:
        messages.append(_exchange(groups, rows * x.width))
    return x.trace.call(Call("combine", (x,), shape, x.dtype, leaf=_leaf("combine"), messages=tuple(messages)))


def passed_around(k: Tensor, v: Tensor, devices: Num) -> Tensor:
    """Pass keys and values around a ring of GPUs, which share the sequence, and in backward their gradients in fp32.

    Each GPU sends ``c − 1`` times in forward, to all but one; in backward as often, and ``c`` times gradients.

    Source: torch.distributed.tensor.experimental's ``_templated_ring_attention`` and its backward.
    """
    elements = k.elements + v.elements
    messages = (
        Message(SEND, devices, elements, forward=devices - 1, backward=devices - 1, group=CONTEXT),
        Message(SEND, devices, elements, forward=0, backward=devices, bits=FP32.bits, group=CONTEXT),
    )
    call = Call("ring", (k, v), k.shape, k.dtype, leaf=_leaf("ring"), shares=k.storage, strides=k.strides, passes=True)
    return k.trace.call(call._replace(messages=messages, kernels=()))


def received(x: Tensor) -> Tensor:
    """Receive activations of another pipeline stage, in new memory."""
    return x.trace.call(Call("receive", (x,), x.shape, x.dtype, passes=True, kernels=()))


def handed_on(x: Tensor, forward: Num, backward: Num) -> Tensor:
    """Send activations to the next pipeline stage ``forward`` times, and gradients to the one before ``backward``."""
    message = Message(SEND, 2, x.elements, forward, backward, group=PIPELINE)
    call = Call("send", (x,), x.shape, x.dtype, leaf=_leaf("stage"), shares=x.storage, strides=x.strides, passes=True)
    return x.trace.call(call._replace(messages=(message,), kernels=()))


def cross_entropy_of_shares(logits: Tensor, name: str, devices: Num, code: Callable[[], Tensor]) -> Tensor:
    """Compute ``−log softmax(logits)[next token]`` with the vocabulary split over GPUs.

    Three numbers per token are all-reduced: the largest logit, the target's logit, and the sum of exponentials.

    Source: Megatron-LM's ``vocab_parallel_cross_entropy``; torch.distributed.tensor.parallel.loss_parallel.
    """
    work = (Elementwise("cross-entropy", logits.elements, *CROSS_ENTROPY),)
    agreed = Message(ALL_REDUCE, devices, logits.rows, forward=3, backward=0, bits=FP32.bits)
    call = Call("cross_entropy", (logits,), (), FP32.torch, elementwise=work, leaf=Leaf(name, "loss"))
    return logits.trace.composite(call._replace(messages=(agreed,)), code)


def of_copy(logits: Tensor) -> Tensor:
    """Compute the loss from an fp32 copy of the logits, which is saved; backward makes their gradient of it in place.

    Source: Korthikanti et al. 2022, section 4.3: "the cross entropy loss requires storing the logits which are
    calculated in 32-bit floating point"; Megatron-core's ``tensor_parallel/cross_entropy.py``, whose gradient is the
    softmax that it has saved, which autograd turns into the logits' own format.
    """
    copy = logits.trace.new(logits.shape, FP32.torch, "logits")
    return logits.trace.call(Call("cross_entropy", (logits,), (), FP32.torch, saves=(copy,)))


def of_logarithms(logits: Tensor) -> Tensor:
    """Compute the loss from the log-softmax over all GPUs' parts of the vocabulary, which is saved in fp32.

    Temporary buffers: in forward the logits less the largest, in backward the softmax.

    Source: torch.distributed.tensor.parallel.loss (``_log_softmax``, ``_nll_loss_and_log_softmax_backward``).
    """
    trace = logits.trace
    copy = trace.to(logits, FP32.torch)
    size = copy.elements * (FP32.bits // 8)
    trace.needed(2 * size)
    logarithms = Call("log_softmax", (copy,), copy.shape, FP32.torch, saves_result=True, scratch=size)
    log_softmax = trace.call(logarithms)
    labels = trace.new(logits.shape[:-1], INT64.torch, "labels")
    return trace.call(Call("nll_loss", (log_softmax,), (), FP32.torch, saves=(log_softmax, labels)))


def _exchange(devices: Num, elements: Num, bits: int | None = None) -> Message:
    return Message(ALL_TO_ALL, devices, elements, forward=1, backward=1, bits=bits, group=EXPERT)


def _gathering_rows(devices: Num, elements: Num, bits: int | None = None) -> list[Message]:
    return [
        Message(ALL_GATHER, devices, elements * devices, forward=1, backward=0, bits=bits, group=EXPERT_TENSOR),
        Message(REDUCE_SCATTER, devices, elements * devices, forward=0, backward=1, bits=bits, group=EXPERT_TENSOR),
    ]


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
