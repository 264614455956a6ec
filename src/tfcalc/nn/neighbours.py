"""Attention of a query to the keys of its chunk and of the neighbouring ones (Reformer)."""

from __future__ import annotations

from tfcalc.core.number import Num, beyond
from tfcalc.core.pairs import Pairs
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.attention import attend
from tfcalc.ops.hashing import hashes
from tfcalc.ops.shapes import merge_heads, reshape, transpose
from tfcalc.tape.tensor import Tensor


class NeighbourAttention(Module):
    """Each query sees the keys of ``around`` chunks: its own and its neighbours'.

    Of two maps (``inward``) the first makes queries that are keys, too; then the chunks are made by hashing them,
    ``rounds`` times over, not by cutting: by products with ``rotation`` vectors for each head, without a gradient.
    Chunks are full: what a mask hides is computed all the same. All pairs are compared in a sequence that is no longer
    than a ``chunk``.

    Source: Kitaev et al. 2020 (Reformer, arXiv 2001.04451), section 2; transformers' LSHSelfAttention.
    """

    kind = "attention"

    heads: Num
    width: Num
    chunk: int
    around: int
    inward: tuple[Linear, ...]
    output: Linear
    rounds: Num = 1
    rotation: int = 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h."""
        made = [transpose(reshape(each(x), *x.shape[:2], self.heads, self.width), 1, 2) for each in self.inward]
        q, k, v = made[0], made[-2], made[-1]
        stream, chunked = ctx.stream, beyond(ctx.stream.length, self.chunk)
        if self.rotation:
            hashes("hash", q, self.rounds, self.rotation, chunked)
        seen = stream.length + chunked * (self.rounds * self.around * self.chunk - stream.length)
        pairs = Pairs((2, stream.tokens, seen), stream.tokens * seen, ctx.run.fused)
        return self.output(merge_heads(attend(q, k, v, pairs, lambda: q), self.heads * self.width))
