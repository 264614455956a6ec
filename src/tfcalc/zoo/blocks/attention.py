"""Kinds of attention that few families have: gated behind its output, masked by what is given, indexed maps."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import mul
from tfcalc.ops.shapes import copied, expand, picked, reshape, split, transpose, unsqueeze
from tfcalc.tape.tensor import Tensor


class GatedBehind(Attention):
    """Attention whose heads' output is multiplied by an activation of the ``gate``: a number per head or element.

    That activation may run in fp32 (``gate_in_float32``), which is of no consequence to what is counted.

    Source: Qiu et al. 2025 (arXiv 2505.06708); transformers' LagunaAttention, Lfm3Attention.
    """

    opens: str = "sigmoid"
    by_head: bool = True
    gate_in_float32: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the attention output for ``x``, of b × l × h."""
        return self.output(self._multiplied(self.mixed(list(self.project(x, x, ctx)), ctx), x, ctx))

    def _multiplied(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        assert self.gate is not None
        trace, logits = x.trace, self.gate(x)
        logits = trace.to(logits, "float32") if self.gate_in_float32 else logits
        gate = ctx.activation(self.opens, logits, "gate")
        gate = trace.to(gate, made.dtype) if self.gate_in_float32 else gate
        if not self.by_head:
            return mul(made, gate)
        heads = reshape(made, *made.shape[:2], self.heads, self.value_dim)
        return reshape(mul(heads, unsqueeze(gate, -1)), *made.shape)


class Masked(Attention):
    """A mask says which tokens see which: the context's, or one that is made of tokens that are there."""

    causal: bool = False

    @property
    def looks_at_mask(self) -> bool:
        """Always."""
        return True


class MaskedLayers(Layers):
    """Layers whose masks the context has already."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layers' output for the vectors ``x``."""
        return self.layers(x, ctx)


class IndexedAttention(Attention):
    """The map makes ``groups`` of keys and values, which are copied, and repeated for all ``kv_heads``.

    Queries of several groups are copied, too. Whatever reads keys and values, a cache included, finds ``kv_heads`` of
    them. Source: transformers' FalconAttention, ``_split_heads``.
    """

    groups: Num = 1

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
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
