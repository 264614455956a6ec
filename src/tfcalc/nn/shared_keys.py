"""Attention to the keys and values of an earlier layer."""

from __future__ import annotations

from tfcalc.core.cost import Cached
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.ops.attention import rotary_alone
from tfcalc.ops.shapes import merge_heads, reshape, transpose
from tfcalc.tape.tensor import Tensor


class SharingAttention(Attention):
    """Each head's queries, keys and values have a norm; later layers may read the same keys and values.

    The ``inward`` maps are those of queries, keys and values. Without the last, values are the keys as they are before
    their norm. A layer that has that of queries alone reads what the last one before it has made that ``shares`` by the
    same name.

    Source: Brandon et al. 2024 (arXiv 2405.12981); transformers' Gemma4TextAttention.
    """

    value_norm: Norm | None = None
    shares: str = ""

    @property
    def makes(self) -> bool:
        """Whether it makes keys and values."""
        return len(self.inward) > 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        if self.makes:
            return super().forward(x, ctx)
        q = transpose(self._normed(self.inward[0](x), 0, self.heads, ctx), 1, 2)
        if self.rope is not None:
            q = rotary_alone(q, self.rope.width, lambda: ctx.backend.rotate_alone(q, self, ctx))
        return self.output(merge_heads(self._attended(q, *self._read(ctx), ctx), self.heads * self.value_dim))

    def _read(self, ctx: Context) -> tuple[Tensor, Tensor]:
        """The keys and values of an earlier layer; no gradient reaches them out of each checkpoint (reentrant)."""
        k, v = ctx.stored[self.shares]
        if ctx.every_whole != 1:
            return k, v
        return k.trace.new(k.shape, k.dtype, "keys"), v.trace.new(v.shape, v.dtype, "values")

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        q, k, *made = (each(x) for each in self.inward)
        v = reshape(made[0] if made else k, *x.shape[:2], self.kv_heads, self.value_dim)
        q, k = self._normed(q, 0, self.heads, ctx), self._normed(k, 1, self.kv_heads, ctx)
        v = v if self.value_norm is None else self.value_norm(v, ctx)
        return transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        if self.shares and self.makes:
            ctx.stored[self.shares] = k, v
        return super()._attended(q, k, v, ctx, name)

    def _kept(self, ctx: Context) -> tuple[Cached, ...]:
        return super()._kept(ctx) if self.makes else ()
