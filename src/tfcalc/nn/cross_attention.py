"""Attention of one sequence to what an encoder has made of another."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class CrossAttention(Attention):
    """Queries of the stream, keys and values of the context's ``memory``, all of which each query sees.

    Some classes hold it and never give it a memory to read (``reads``).

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.3.
    """

    causal: bool = False
    masked: bool = False
    reads: bool = True

    def runs(self, ctx: Context) -> bool:
        """Where there is a memory."""
        return self.reads and ctx.memory is not None

    def source(self, x: Tensor, ctx: Context) -> Tensor:
        """The memory."""
        assert ctx.memory is not None
        return ctx.memory

    def sees(self, ctx: Context) -> Sequences:
        """What the encoder read."""
        assert ctx.memory_of is not None
        return ctx.memory_of
