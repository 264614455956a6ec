"""Multi-head attention: the four projections around the attention products."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import attend, dropout, linear
from tfcalc.workload import Sequences, Workload


class Attention(NamedTuple):
    """Queries from one sequence, keys and values from the same (self-attention) or another (cross-attention).

    ``n_heads`` query heads share ``n_kv_heads`` key and value heads: as many (multi-head), fewer (grouped-query), or
    one (multi-query). ``head_dim`` is each query's and key's width, ``value_dim`` each value's. ``key_width`` and
    ``value_width`` are those of the vectors that keys and values are made of, where these are not ``d_model`` wide.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.2; Ainslie et al. 2023 (arXiv 2305.13245).
    """

    d_model: Num
    n_heads: Num
    n_kv_heads: Num
    head_dim: Num
    value_dim: Num
    bias: bool
    dropout: bool
    key_width: Num | None = None
    value_width: Num | None = None

    def __call__(self, name: str, queries: Sequences, keys: Sequences, run: Workload, *, causal: bool) -> Component:
        """The block on these sequences; self-attention where ``queries`` and ``keys`` are the same."""
        h, a, g, d_k, d_v = self.d_model, self.n_heads, self.n_kv_heads, self.head_dim, self.value_dim
        drops = self.dropout and run.training
        scores = queries.tokens * keys.length
        return Component(
            name,
            "attention",
            parts=(
                linear("query", h, a * d_k, queries.tokens, bias=self.bias, letter="Q"),
                linear(
                    "key",
                    h if self.key_width is None else self.key_width,
                    g * d_k,
                    keys.tokens,
                    bias=self.bias,
                    letter="K",
                ),
                linear(
                    "value",
                    h if self.value_width is None else self.value_width,
                    g * d_v,
                    keys.tokens,
                    bias=self.bias,
                    letter="V",
                ),
                attend(
                    "attend",
                    a,
                    d_k,
                    d_v,
                    run.twice_pairs(queries, keys, causal=causal),
                    scores,
                    recomputes_scores=run.recomputes_scores,
                ),
                *([dropout("attend_dropout", a * scores)] if drops else []),
                linear("output", a * d_v, h, queries.tokens, bias=self.bias, letter="O"),
            ),
        )
