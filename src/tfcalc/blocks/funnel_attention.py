"""Attention to a longer sequence than that of the queries, by content, by distance and by segment."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num
from tfcalc.leaves import attend, linear, norm, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class FunnelAttention(NamedTuple):
    """``(q + u)·k + (q + v)·r + (q + w)·s``: r is a map of the vector of a distance, s one of two for the segment.

    Queries have no bias, as u, v and w are theirs. ``factorized``: r is a sum of products of sines and cosines of the
    two places, so that queries are mapped to the stream's width and compared with each key's sines and cosines.

    Source: Dai et al. 2020 (Funnel-Transformer, arXiv 2006.03236), appendix A.2; transformers'
    FunnelRelMultiheadAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    factorized: bool = False

    def __call__(
        self, name: str, queries: Sequences, keys: Sequences, run: Workload, *, shortens: bool = False
    ) -> Component:
        """The block on these sequences; it ``shortens`` where each query stands for two of the keys."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, queries.tokens
        inner = a * d
        pairs = run.pairs(queries, keys, causal=False)
        return Component(
            name,
            "attention",
            parts=(
                linear("q_head", h, inner, t, bias=False, letter="Q"),
                linear("k_head", h, inner, keys.tokens, letter="K"),
                linear("v_head", h, inner, keys.tokens, letter="V"),
                *self._positions(queries, keys, pairs.scores, shortens),
                *(parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs"),
                parameter("seg_embed", 2, a, d),
                relative_scores("segments", a, d, t, 2, pairs.scores),
                attend("attend", a, d, d, pairs),
                linear("post_proj", inner, h, t, letter="O"),
                norm("layer_norm", "layernorm", h, t),
            ),
        )

    def _positions(self, queries: Sequences, keys: Sequences, scores: Num, shortens: bool) -> Iterator[Component]:
        """All distances that there are, made once for the batch: twice as far apart where queries are half as many."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, queries.tokens
        if self.factorized:
            yield linear("r_kernel", h, a * d, t, bias=False, letter="R")
            fixed = (2, queries.batch, queries.length, keys.length, a, h)
            waves = (Product(f"Q R {wave}", fixed, backward=1) for wave in ("sin", "cos"))
            yield Component("relative", "attend", Cost(products=tuple(waves)))
            return
        distances = 2 * queries.length + keys.length if shortens else 2 * keys.length
        yield linear("r_kernel", h, a * d, distances, bias=False, letter="R", input_gradient=False)
        yield relative_scores("relative", a, d, t, distances, scores)
