"""Attention whose output is gated."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import mul, pointwise
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class GatedAttention(Attention):
    """Queries are mapped together with a gate of the same width, head by head; its sigmoid multiplies the output.

    Source: Qiu et al. 2025 (arXiv 2505.06708); transformers' Qwen3NextAttention, Qwen3_5Attention.
    """

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        a, g, d, rows = self.heads, self.kv_heads, self.key_dim, x.shape[:2]
        q, gate = split(reshape(self.inward[0](x), *rows, a, 2 * d), [d, d])
        gate = reshape(gate, *rows, a * d)
        k, v = (each(x) for each in self.inward[1:])
        q, k = self._normed(q, 0, a, ctx), self._normed(k, 1, g, ctx)
        v = reshape(v, *rows, g, self.value_dim)
        made = self.mixed(transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2), ctx)
        return self.output(mul(made, pointwise("sigmoid", gate)))
