"""Differential attention: what one half of the values makes, less λ times what the other half makes."""

from __future__ import annotations

from tfcalc.core.number import divide
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.rows import whole_sum
from tfcalc.ops.shapes import cat, copied, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class DifferentialAttention(Attention):
    """Attention in which all heads read each half of the values, so that scores are computed twice.

    The ``vectors`` make λ: ``exp(q₁·k₁) − exp(q₂·k₂)`` and a number. Two heads together have a norm (``group_norm``).

    Source: Ye et al. 2024 (arXiv 2410.05258), eq. 1 to 3; transformers' DiffLlamaAttention.
    """

    vectors: tuple[Stored, ...] = ()
    group_norm: Norm | None = None

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        """The difference of both halves, normed."""
        first, second = split(v, [divide(self.kv_heads, 2)] * 2, 1)
        first, second = (copied(half, v.shape, "repeat") for half in (first, second))
        made = [super()._attended(q, k, first, ctx, name), super()._attended(q, k, second, ctx, f"{name}_again")]
        both = cat([transpose(each, 1, 2) for each in made])
        one, other = split(both, [divide(self.heads, 2)] * 2, 2)
        q1, k1, q2, k2 = self.vectors
        λ = scaled(add(_factor(q1, k1, q), _factor(q2, k2, q)))
        x = add(one, mul(other, λ))
        x = scaled(x if self.group_norm is None else self.group_norm(x, ctx))
        return transpose(reshape(x, *x.shape[:2], self.heads, self.value_dim), 1, 2)


def _factor(of_queries: Stored, of_keys: Stored, q: Tensor) -> Tensor:
    """The exponential of a product of two vectors, in fp32; then in the format of the queries."""
    trace = q.trace
    with trace.inside(of_queries):
        one = trace.weight(of_queries.tensor)
    with trace.inside(of_keys):
        other = trace.weight(of_keys.tensor)
    return trace.to(pointwise("exp", whole_sum(mul(one, other), "float32")), q.dtype)
