"""Attention of one sequence to what an encoder has made of another."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class CrossAttention(Attention):
    """Queries of the stream, keys and values of the context's ``memory``, all of which each query sees.

    Some classes hold it and never give it a memory to read (``reads``). A program may add zeros to its scores, which it
    makes anew, where other attention adds a bias (``adds_zeros``).

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.3.
    """

    causal: bool = False
    masked: bool = False
    reads: bool = True
    adds_zeros: bool = False

    def runs(self, ctx: Context) -> bool:
        """Where there is a memory."""
        return self.reads and ctx.memory is not None

    def source(self, x: Tensor, ctx: Context) -> Tensor:
        """The memory."""
        assert ctx.memory is not None
        return ctx.memory.vectors

    def sees(self, ctx: Context) -> Sequences:
        """What the encoder read."""
        assert ctx.memory is not None
        return ctx.memory.of

    def with_bias(self, x: Tensor, ctx: Context) -> Context:
        """With zeros in the place of a bias, where it adds some."""
        if not self.adds_zeros or ctx.memory is None:
            return ctx
        shape = (1, self.heads, ctx.stream.length, ctx.memory.of.length)
        return ctx._replace(memory=ctx.memory._replace(bias=x.trace.new(shape, x.trace.compute, "zeros")))

    def bias(self, ctx: Context) -> Tensor | None:
        """What is added to the scores of the encoder's keys."""
        return None if ctx.memory is None else ctx.memory.bias
