"""Attention to a longer sequence than that of the queries, by content, by distance and by segment."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import attend, linear, norm, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class FunnelAttention(NamedTuple):
    """``(q + u)·k + (q + v)·r + (q + w)·s``: r is a map of the vector of a distance, s one of two for the segment.

    Queries have no bias, as u, v and w are theirs.

    Source: Dai et al. 2020 (Funnel-Transformer, arXiv 2006.03236), appendix A.2; transformers'
    FunnelRelMultiheadAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num

    def __call__(self, name: str, queries: Sequences, keys: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, queries.tokens
        inner, distances = a * d, 2 * keys.length
        pairs = run.pairs(queries, keys, causal=False)
        return Component(
            name,
            "attention",
            parts=(
                linear("q_head", h, inner, t, bias=False, letter="Q"),
                linear("k_head", h, inner, keys.tokens, letter="K"),
                linear("v_head", h, inner, keys.tokens, letter="V"),
                linear("r_kernel", h, inner, distances, bias=False, letter="R"),
                *(parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs"),
                parameter("seg_embed", 2, a, d),
                relative_scores("relative", a, d, t, distances, pairs.scores),
                attend("attend", a, d, d, pairs),
                linear("post_proj", inner, h, t, letter="O"),
                norm("layer_norm", "layernorm", h, t),
            ),
        )
