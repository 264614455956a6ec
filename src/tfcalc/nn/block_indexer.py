"""Attention to blocks of keys that an indexer chooses: the best score in a block is the block's."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.keeping import INDEX, by_token
from tfcalc.ops.products import matmul
from tfcalc.ops.scan import recurrence
from tfcalc.ops.scores import score
from tfcalc.ops.select import masked_fill
from tfcalc.ops.shapes import copied, reshape, transpose
from tfcalc.tape.tensor import Tensor

BEST_OF_BLOCK = 1


class BlockIndexer(Module):
    """``heads`` queries and one key for all, each with a norm; a head chooses for a group of heads.

    Source: transformers' MiniMaxM3VLIndexer.
    """

    kind = "indexer"

    q_proj: Linear
    k_proj: Linear
    q_norm: Norm
    k_norm: Norm
    heads: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """The scores of all keys: as transformers runs it, of all the tokens there are."""
        rows, d = x.shape[:2], self.q_norm.width
        q = transpose(self.q_norm(reshape(self.q_proj(x), *rows, self.heads, d), ctx), 1, 2)
        k = transpose(self.k_norm(reshape(self.k_proj(x), *rows, 1, d), ctx), 1, 2)
        pairs = ctx.run.pairs(ctx.stream, ctx.stream, causal=True)
        formula = score("score", self.heads, d, pairs, weighted=False, operations=BEST_OF_BLOCK)
        cached = by_token(ctx.stream, ctx.stream, 1, {INDEX: d}, causal=True)
        return recurrence(formula, q, q.shape, lambda: self._scores(q, k), cached=cached)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        """In fp32; those of later keys are masked."""
        keys = copied(k.trace.to(k, "float32"), (k.shape[0], self.heads, *k.shape[2:]), "expand")
        return masked_fill(matmul(q.trace.to(q, "float32"), transpose(keys, 2, 3)))


class IndexedBlockAttention(Attention):
    """Attention with a mask for each head, of what its indexer has chosen: a choice has no gradient.

    Source: transformers' MiniMaxM3VLAttention.
    """

    indexer: BlockIndexer | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        q, k, v = self._projected(x, x, ctx)
        if self.indexer is not None:
            with x.trace.without_gradients():
                self.indexer(x, ctx)
            mask = x.trace.new((q.shape[0], self.heads, q.shape[2], ctx.stream.seen), q.dtype, "mask of blocks")
            ctx = ctx._replace(masks={**ctx.masks, self.mask: mask})
        given = [q, k, v]
        del q, k, v
        return self.output(self.mixed(given, ctx))
