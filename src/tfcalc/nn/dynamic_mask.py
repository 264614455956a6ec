"""Attention with a learned mask over keys."""

from __future__ import annotations

from tfcalc.core.number import minimum
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import filled, mul, pointwise
from tfcalc.ops.select import masked_fill
from tfcalc.ops.shapes import copied, expand, reshape, transpose
from tfcalc.tape.tensor import Tensor


class DynamicMaskAttention(Attention):
    """How much a key counts is made of its value (``dt_proj``, A): that is added to scores, where nothing masks them.

    A program leaves the best so many keys (``keeps``) of each query.

    Source: Shi et al. 2024 (arXiv 2412.11834), section 3.2; transformers' DogeAttention.
    """

    A: Stored | None = None
    dt_proj: Linear | None = None
    keeps: int = 0

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """With the mask in the place of that of all layers."""
        mask = self._mask(v, ctx)
        return super()._attended(q, k, v, ctx._replace(masks={**ctx.masks, self.mask: mask}), name)

    def _mask(self, v: Tensor, ctx: Context) -> Tensor:
        """Of b × a × l × s. Where operations are only counted, nothing is cached: the values of all that are kept."""
        assert self.A is not None
        assert self.dt_proj is not None
        trace, (b, g, _, d) = v.trace, v.shape
        if not trace.lowers:
            seen = ctx.stream.seen
            kept = minimum(seen, self.window) if ctx.run.decoding and self.window is not None else seen
            return self.dt_proj(trace.view(v, (b, kept, g * d), None))
        made = self.dt_proj(reshape(transpose(v, 1, 2), b, v.shape[2], g * d))
        made = mul(self.A.weight(trace), pointwise("softplus", trace.upper(made)))
        made = transpose(pointwise("exp", trace.upper(made)), 1, 2)
        made = expand(reshape(made, b, g, 1, v.shape[2]), b, g, ctx.stream.length, v.shape[2])
        later = trace.new((b, 1, *made.shape[2:]), "bool", "not seen")
        made = filled(made, later)
        if isinstance(made.shape[-1], int) and made.shape[-1] > self.keeps:
            made = masked_fill(made)
        return made if g == self.heads else copied(made, (b, self.heads, *made.shape[2:]), "repeat_kv")
