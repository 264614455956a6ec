"""Biases of scores for the distance of two tokens, as T5's code makes them."""

from __future__ import annotations

from tfcalc.nn.context import Context
from tfcalc.nn.positions import RelativeBias
from tfcalc.ops.shapes import contiguous
from tfcalc.tape.call import Call
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import Place
from tfcalc.tape.tensor import Tensor, preserved
from tfcalc.tape.value import Node


def shared(table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
    """The first layer makes it for all layers of the stack; again, where that layer runs again.

    In its place, attention to the encoder's output adds zeros. Where layers run again, these get a gradient, which
    stays beside them (T5Attention.forward, ``requires_grad``).
    """
    trace = ids.trace
    assert isinstance(trace, Interpreter)
    bias = trace.checkpoint(lambda x: table(x, ctx), ids) if ctx.run.every else table(ids, ctx)
    zeros = no_bias(table, ctx, ids)
    if zeros is not None:
        zeros.storage.home = (*trace.module, Place("position_bias"))
        if ctx.run.every:
            zeros.node = Node("zeros", (), (), False, 0, 1)  # it never runs
            trace.until_end(zeros)
    return ctx._replace(bias=bias, memory=ctx.memory and ctx.memory._replace(bias=zeros))


def no_bias(table: RelativeBias, ctx: Context, ids: Tensor) -> Tensor | None:
    """A zero for each head and pair of a place and one of the encoder's, in a decoder."""
    if ctx.memory is None:
        return None
    shape = (1, table.heads, ctx.stream.length, ctx.memory.of.length)
    return ids.trace.new(shape, ids.trace.compute, "zeros")


def for_sdpa(bias: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
    """create_position_bias_mask: what is masked is masked here, as neither that nor ``is_causal`` goes with a bias."""
    if causal or mask is not None:
        seen = bias.trace.new(bias.shape[-2:], "bool", "causal mask") if mask is None else mask
        call = Call("where", (bias,), bias.shape, bias.dtype, saves=(seen,), strides=preserved(bias))
        bias = bias.trace.call(call)
    return contiguous(bias)
