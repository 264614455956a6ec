"""Attention whose keys and values a program takes out of one map by an index."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.shapes import copied, expand, picked, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class IndexedAttention(Attention):
    """The map makes ``groups`` of keys and values, which are copied, and repeated for all ``kv_heads``.

    Queries of several groups are copied, too. Whatever reads keys and values, also a cache, finds so many. Source:
    transformers' FalconAttention, ``_split_heads``.
    """

    groups: Num = 1

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, and copies of keys and values."""
        a, g, d = self.heads, self.groups, self.key_dim
        q, k, v = split(self.inward[0](x), [a * d, g * d, g * d])
        k, v = (self._spread(picked(each)) for each in (k, v))
        if known(g) not in (1, known(self.kv_heads)):  # queries of several groups do not lie in one piece
            q = copied(q, name="flatten")
        return tuple(transpose(each, 1, 2) for each in (reshape(q, *q.shape[:2], a, d), k, v))  # type: ignore[return-value]  # three

    def _spread(self, x: Tensor) -> Tensor:
        """Head by head, for each that reads them: one alone is read several times, more are copied."""
        shape = (*x.shape[:2], self.kv_heads, self.key_dim)
        if known(self.groups) == 1:
            return expand(reshape(x, *x.shape[:2], 1, self.key_dim), *shape)
        return reshape(x, *shape) if known(self.groups) == known(self.kv_heads) else copied(x, shape, "repeat")
