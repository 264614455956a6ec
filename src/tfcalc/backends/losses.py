"""Losses that never have all logits in fp32: chunk by chunk of tokens, or by a kernel that is fused with the head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.core.traced import known, value_of
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import add
from tfcalc.ops.products import linear as product
from tfcalc.ops.rows import cross_entropy
from tfcalc.ops.shapes import part, reshape, split
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Call, Tensor, Trace

CHUNKS = 8
"""torchtune's ``num_output_chunks``."""
TOKENS = 256
"""TRL's ``_CHUNKED_LM_HEAD_CHUNK_SIZE``."""
OF_LITGPT = 128
"""LitGPT's ``lm_head_chunk_size`` in its fine-tuning scripts."""


class LossCode(Protocol):
    """The part of a backend that a loss of its logits needs."""

    def begin_loss(self, trace: Trace) -> None:
        """Begin the phase of the loss."""
        ...

    def loss_of(self, logits: Tensor, targets: Tensor, *, upcasts: bool = True) -> Tensor:
        """Compute the loss of these logits."""
        ...

    def labels(self, model: ModelWithHead, ids: Tensor) -> Tensor:
        """Return the labels."""
        ...


def in_chunks(length: Num) -> list[Num]:
    """Return the lengths of 8 chunks, the longer ones first (torch.tensor_split).

    >>> in_chunks(35), in_chunks(16)
    ([5, 5, 5, 4, 4, 4, 4, 4], [2, 2, 2, 2, 2, 2, 2, 2])
    """
    if known(length) is not None and known(length) % CHUNKS == 0:  # type: ignore[operator]
        return [floor_div(length, CHUNKS)] * CHUNKS
    return [floor_div(length + more, CHUNKS) for more in reversed(range(CHUNKS))]


def chunked(code: LossCode, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Compute all logits in chunks of tokens; each chunk's loss is computed from its own copy in fp32.

    Source: torchtune's TransformerDecoder.chunked_output and CEWithChunkedOutputLoss (torchtune/modules/transformer.py
    and loss/ce_chunked_output_loss.py).
    """
    return _of_chunks(code, model, x, ids, ctx, in_chunks(x.shape[1]))


def converted(code: LossCode, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Compute all logits in chunks of 128 tokens, which the caller has in fp32; the loss is that of each chunk.

    Source: LitGPT's GPT.forward with ``lm_head_chunk_size=128`` (litgpt/model.py) and chunked_cross_entropy
    (litgpt/utils.py); Lightning Fabric converts what a model returns to torch's default format
    (``HalfPrecision.convert_output`` and ``BitsandbytesPrecision.convert_output``).
    """
    left = x.shape[1]
    lengths: list[Num] = []
    while known(left) is not None and left > OF_LITGPT:  # type: ignore[operator]  # recorded, where sizes are searched
        lengths.append(OF_LITGPT)
        left = left - OF_LITGPT
    return _of_chunks(code, model, x, ids, ctx, [*lengths, left], returns=True)


def _of_chunks(
    code: LossCode,
    model: ModelWithHead,
    x: Tensor,
    ids: Tensor,
    ctx: Context,
    lengths: Sequence[Num],
    *,
    returns: bool = False,
) -> Tensor:
    """Compute all logits in chunks of these lengths, then the loss of each; the caller is given them all, in fp32."""
    logits = [model.logits(tokens, ctx) for tokens in split(x, lengths, 1)]
    if returns:
        logits = [x.trace.to(chunk, "float32") for chunk in logits]
    code.begin_loss(x.trace)
    losses = []
    for chunk in logits:
        rows = reshape(chunk, chunk.rows, chunk.width)
        targets = x.trace.new((chunk.rows,), "int64", "labels") if known(x.shape[0]) != 1 else ids
        losses.append(_loss(code, model, rows, targets, upcasts=not returns))
        if returns:
            x.trace.returns("logits", chunk)
    del logits, chunk, rows  # before the losses are added: from here on only backward keeps logits live
    return _summed(losses)


def linear(code: LossCode, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Select vectors of tokens that have labels; compute logits and loss of each chunk of these.

    All tokens are assumed to have labels.

    Source: torchtune's LinearCrossEntropyLoss (torchtune/modules/loss/cross_entropy_loss.py).
    """
    code.begin_loss(x.trace)
    trace = x.trace
    places, targets = (trace.new((x.rows,), "int64", name) for name in ("places of labels", "labels"))
    picked = Call("index_select", (x,), (x.rows, x.width), x.dtype, saves=(places,))
    chunks = split(trace.call(picked), in_chunks(x.rows), 0)
    del places  # index_select saves it; no local variable does
    return _summed([_loss(code, model, model.logits(chunk, ctx), targets) for chunk in chunks])


def checkpointed(code: LossCode, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Select tokens that have labels; compute the logits of 256 at a time in forward, and recompute them in backward.

    All tokens are assumed to have labels. At most three whole chunks run: further ones add nothing to the peak. TRL's
    entropy and accuracy of each chunk are not counted.

    Source: TRL's _chunked_cross_entropy_loss (trl/trainer/sft_trainer.py).
    """
    code.begin_loss(x.trace)
    trace = x.trace
    x, weights = model.opened(x, ctx)
    order, targets = (trace.new((x.rows,), "int64", name) for name in ("order of tokens", "labels"))
    rows = trace.call(Call("index", (x,), (x.rows, x.width), x.dtype, saves=(order,)))
    tokens = known(x.rows)
    size = TOKENS if tokens is None or tokens > TOKENS else x.rows
    whole = 1 if tokens is None else sum(tokens >= count * TOKENS for count in (1, 2, 3)) or 1

    def loss(some: Tensor, targets: Tensor) -> Tensor:
        weight, *bias = (trace.to(tensor, "float32") for tensor in weights)
        logits = trace.upper(product(trace.to(some, "float32"), weight, *bias))
        return _loss(code, model, logits, targets)

    return _summed([trace.checkpoint(loss, part(rows, 0, size), targets) for _ in range(whole)])


def _loss(code: LossCode, model: ModelWithHead, logits: Tensor, targets: Tensor, *, upcasts: bool = True) -> Tensor:
    """Compute the sum of the losses of these rows."""
    return cross_entropy(logits, f"{model.output.name}.loss", lambda: code.loss_of(logits, targets, upcasts=upcasts))


def _summed(losses: list[Tensor]) -> Tensor:
    total = losses[0]
    for loss in losses[1:]:
        total = add(total, loss)
    total.trace.loss_ends()
    return total


def fused(code: LossCode, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Compute the loss of ``x W + b`` in one kernel: saves no logits but the gradients of x, W and b, made in forward.

    It computes logits of a few rows at a time, which are about as large as x.

    Source: Liger-Kernel's LigerFusedLinearCrossEntropyFunction (arXiv 2410.10989, section 3.2).
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    x, (weight, *bias) = model.opened(x, ctx)
    code.begin_loss(trace)
    labels = code.labels(model, ids)
    inputs = (x, weight, *bias)
    ready = [_gradient(tensor) for tensor in inputs]
    _logits(x, weight)
    gradients = tuple(gradient for gradient in ready if gradient is not None)
    loss = trace.call(Call("linear_cross_entropy", inputs, (), "float32", saves=gradients))
    if loss.node is not None:
        loss.node.ready = [gradient.storage if gradient is not None else None for gradient in ready]
    del labels  # not saved: forward has used them
    trace.loss_ends()
    return loss


def _gradient(of: Tensor) -> Tensor | None:
    if not of.needs_gradient or not of.trace.gradients:
        return None
    return of.trace.new(of.shape, of.dtype, "gradient, in forward")


def _logits(x: Tensor, weight: Tensor) -> None:
    """Allocate and free the temporary buffers: losses of all rows, logits of one chunk, autocast's copy of the weight.

    If memory is not tracked, sizes may be symbols, and temporary buffers are not counted.
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if not trace.tape.tracker.watch:
        return
    kind = trace.compute
    vocabulary = weight.shape[1]
    buffers = [
        trace.new((x.rows,), "float32", "losses"),
        trace.new((_chunk(x.rows, vocabulary, x.width), vocabulary), kind, "logits"),
    ]
    if weight.dtype != kind:
        buffers.append(trace.new(weight.shape, kind, "weight in autocast"))
    del buffers  # all live at once, until here


def _chunk(rows: Num, vocabulary: Num, width: Num) -> Num:
    """Return Liger's rows per chunk, ``min(next_power_of_2(ceil(rows / ceil(V / h))), rows)``.

    >>> _chunk(4 * 4096, 32000, 4096), _chunk(3, 100, 8)
    (2048, 1)
    """
    wanted = ceil_div(value_of(rows), ceil_div(value_of(vocabulary), value_of(width)))
    power = 1
    while power < wanted:
        power *= 2
    return rows if value_of(rows) <= power else power


LOSSES = {
    "chunked": chunked,
    "linear": linear,
    "checkpointed": checkpointed,
    "fused": fused,
    "litgpt": converted,
}
"""Losses by their name; the one of all logits at once is the backend's own."""
