"""Attention to what is near on both sides, and to a few tokens that all see (Longformer)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import known
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import narrow, permute, reshape, transpose
from tfcalc.ops.windows import attend_marked, attend_nearby
from tfcalc.tape.tensor import Tensor


class SlidingAttention(Module):
    """A token sees half a ``window`` of tokens on each side, and ``marked`` tokens, which see everything.

    These have projections of their own, which are stored where there are none, too. Sequences are filled up to whole
    windows of the ``widest`` layer. What a program keeps of marked tokens is not described.

    Source: Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section 3.1; transformers' LongformerSelfAttention.
    """

    kind = "attention"

    heads: Num
    head_dim: Num
    inward: tuple[Linear, ...]
    of_marked: tuple[Linear, ...]
    output: Linear
    window: int
    widest: int
    marked: int = 0
    dropout: bool = False

    def runs(self, ctx: Context) -> bool:
        """Where there is a sequence: what an encoder has read is not read again."""
        return known(ctx.stream.length) != 0

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x`` make of each other; the program has time as the first axis."""
        (b, l, width), a, d = x.shape, self.heads, self.head_dim
        x = transpose(x, 0, 1)
        q, k, v = (permute(reshape(each(x), l, b, a, d), (1, 2, 0, 3)) for each in self.inward)
        made = self._nearby(q, k, v, ctx)
        if self.marked:
            query, *others = self.of_marked
            for each in others:
                each(x)
            asking = query(transpose(narrow(x, self.marked, 0), 0, 1))
            made = attend_marked(made, asking)
        return self.output(transpose(reshape(permute(made, (2, 0, 1, 3)), l, b, width), 0, 1))

    def _nearby(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context) -> Tensor:
        pieces = ceil_div(ctx.unfilled, self.widest) * (2 * self.widest // self.window)

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            code = lambda: ctx.backend.scan(self, ctx, q, k, v)  # noqa: E731
            dropped = self.dropout and ctx.drops
            return attend_nearby(q, k, v, self.window, pieces, self.marked, code, dropped=dropped)

        return q.trace.checkpoint(run, q, k, v) if ctx.run.recompute == "selective" else run(q, k, v)
