"""Relative position biases in T5's code."""

from __future__ import annotations

from tfcalc.nn.module import Context
from tfcalc.nn.positions import RelativeBias
from tfcalc.ops.shapes import contiguous
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import GraphNode, ModulePlace
from tfcalc.tape.tensor import Call, Tensor, preserved


def shared(table: RelativeBias, ctx: Context, ids: Tensor) -> Context:
    """Compute the bias once for all layers of a stack, in the first layer; with checkpointing it is recomputed there.

    Cross-attention adds zeros instead. With checkpointing these get a gradient, which stays live beside them
    (T5Attention.forward, ``requires_grad``).
    """
    trace = ids.trace
    assert isinstance(trace, Interpreter)
    bias = trace.checkpoint(lambda x: table(x, ctx), ids) if ctx.run.every else table(ids, ctx)
    zeros = no_bias(table, ctx, ids)
    if zeros is not None:
        zeros.storage.home = (*trace.module, ModulePlace("position_bias"))
        if ctx.run.every:
            zeros.node = GraphNode("zeros", (), (), False, 0, 1)  # it never runs
            trace.until_end(zeros)
    return ctx._replace(bias=bias, memory=ctx.memory and ctx.memory._replace(bias=zeros))


def no_bias(table: RelativeBias, ctx: Context, ids: Tensor) -> Tensor | None:
    """Return the zeros of a decoder's cross-attention: one per head and pair of positions; None in an encoder."""
    if ctx.memory is None:
        return None
    shape = (1, table.heads, ctx.stream.length, ctx.memory.of.length)
    return ids.trace.new(shape, ids.trace.compute, "zeros")


def for_sdpa(bias: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
    """Apply the mask to the bias, as sdpa takes no other mask and no ``is_causal`` with it.

    Source: transformers' create_position_bias_mask.
    """
    if causal or mask is not None:
        seen = bias.trace.new(bias.shape[-2:], "bool", "causal mask") if mask is None else mask
        call = Call("where", (bias,), bias.shape, bias.dtype, saves=(seen,), strides=preserved(bias))
        bias = bias.trace.call(call)
    return contiguous(bias)
