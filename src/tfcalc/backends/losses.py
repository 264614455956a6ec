"""Losses that never have all logits in fp32: of a chunk of tokens at a time, or by one kernel that makes no logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.number import Num, ceil_div, floor_div
from tfcalc.core.traced import known, value_of
from tfcalc.nn.context import Context
from tfcalc.nn.model import ModelWithHead
from tfcalc.ops.elementwise import add
from tfcalc.ops.loss import cross_entropy
from tfcalc.ops.products import linear as product
from tfcalc.ops.shapes import part, reshape, split
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.backends.transformers import Transformers

CHUNKS = 8
"""torchtune's ``num_output_chunks``."""
TOKENS = 256
"""TRL's ``_CHUNKED_LM_HEAD_CHUNK_SIZE``."""


def in_chunks(length: Num) -> list[Num]:
    """The lengths of 8 chunks, the longer ones first (torch.tensor_split).

    >>> in_chunks(35), in_chunks(16)
    ([5, 5, 5, 4, 4, 4, 4, 4], [2, 2, 2, 2, 2, 2, 2, 2])
    """
    if known(length) is not None and known(length) % CHUNKS == 0:  # type: ignore[operator]
        return [floor_div(length, CHUNKS)] * CHUNKS
    return [floor_div(length + more, CHUNKS) for more in reversed(range(CHUNKS))]


def chunked(code: Transformers, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """All logits in chunks along the sequences; each chunk is brought to fp32, and has its loss, by itself.

    Source: torchtune's TransformerDecoder.chunked_output and CEWithChunkedOutputLoss (torchtune/modules/transformer.py
    and loss/ce_chunked_output_loss.py).
    """
    logits = [model.logits(each, ctx) for each in split(x, in_chunks(x.shape[1]), 1)]
    code.begin_loss(x.trace)
    losses = []
    for each in logits:
        rows = reshape(each, each.rows, each.width)
        targets = x.trace.new((each.rows,), "int64", "labels") if known(x.shape[0]) != 1 else ids
        losses.append(_loss(code, model, rows, targets))
    del logits, each, rows
    return _summed(losses)


def linear(code: Transformers, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Vectors of tokens that have labels are picked out; of each chunk of these logits are made, and then their loss.

    All tokens are taken to have labels.

    Source: torchtune's LinearCrossEntropyLoss (torchtune/modules/loss/cross_entropy_loss.py).
    """
    code.begin_loss(x.trace)
    trace = x.trace
    places, targets = (trace.new((x.rows,), "int64", name) for name in ("places of labels", "labels"))
    picked = Call("index_select", (x,), (x.rows, x.width), x.dtype, saves=(places,))
    chunks = split(trace.call(picked), in_chunks(x.rows), 0)
    del places
    return _summed([_loss(code, model, model.logits(each, ctx), targets) for each in chunks])


def checkpointed(code: Transformers, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """Tokens that have labels are picked out; the logits of 256 at a time are made in forward, and again in backward.

    All tokens are taken to have labels. Chunks after the third leave nothing behind that these do not. The entropy and
    the accuracy that TRL has of each chunk are not counted.

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
        weight, *bias = (trace.to(each, "float32") for each in weights)
        logits = trace.upper(product(trace.to(some, "float32"), weight, *bias))
        return _loss(code, model, logits, targets)

    return _summed([trace.checkpoint(loss, part(rows, 0, size), targets) for _ in range(whole)])


def _loss(code: Transformers, model: ModelWithHead, logits: Tensor, targets: Tensor) -> Tensor:
    """The sum of the losses of these rows."""
    return cross_entropy(logits, f"{model.output.name}.loss", lambda: code.loss_of(logits, targets))


def _summed(losses: list[Tensor]) -> Tensor:
    whole = losses[0]
    for each in losses[1:]:
        whole = add(whole, each)
    whole.trace.loss_ends()
    return whole


def fused(code: Transformers, model: ModelWithHead, x: Tensor, ids: Tensor, ctx: Context) -> Tensor:
    """The loss of ``x W + b``: no logits are kept, but the gradients of x, W and b, which forward computes.

    It makes logits for so few rows at a time that they are about as large as x.

    Source: Liger-Kernel's LigerFusedLinearCrossEntropyFunction (arXiv 2410.10989, section 3.2).
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    x, (weight, *bias) = model.opened(x, ctx)
    code.begin_loss(trace)
    labels = code.labels(model, ids)
    inputs = (x, weight, *bias)
    ready = [_gradient(each) for each in inputs]
    _logits(x, weight)
    kept = tuple(each for each in ready if each is not None)
    made = trace.call(Call("linear_cross_entropy", inputs, (), "float32", saves=kept))
    if made.node is not None:
        made.node.ready = [each.storage if each is not None else None for each in ready]
    del labels  # not kept: forward has used them
    trace.loss_ends()
    return made


def _gradient(of: Tensor) -> Tensor | None:
    if not of.needs_gradient or not of.trace.gradients:
        return None
    return of.trace.new(of.shape, of.dtype, "gradient, in forward")


def _logits(x: Tensor, weight: Tensor) -> None:
    """Those of one chunk, with the weight's copy that autocast makes; the losses of all rows are there, too.

    Where nothing is watched, sizes may be symbols, and what is there for a moment is not counted.
    """
    trace = x.trace
    assert isinstance(trace, Interpreter)
    if not trace.tape.tracker.watch:
        return
    kind = trace.compute
    vocabulary = weight.shape[1]
    there = [
        trace.new((x.rows,), "float32", "losses"),
        trace.new((_chunk(x.rows, vocabulary, x.width), vocabulary), kind, "logits"),
    ]
    if weight.dtype != kind:
        there.append(trace.new(weight.shape, kind, "weight in autocast"))
    del there


def _chunk(rows: Num, vocabulary: Num, width: Num) -> Num:
    """``min(next_power_of_2(ceil(rows / ceil(V / h))), rows)``; a power of two is a number, whatever it follows from.

    >>> _chunk(4 * 4096, 32000, 4096), _chunk(3, 100, 8)
    (2048, 1)
    """
    wanted = ceil_div(value_of(rows), ceil_div(value_of(vocabulary), value_of(width)))
    power = 1
    while power < wanted:
        power *= 2
    return rows if value_of(rows) <= power else power


LOSSES = {"chunked": chunked, "linear": linear, "checkpointed": checkpointed, "fused": fused}
"""By the word that asks for them; that of all logits at once is the backend's own."""
