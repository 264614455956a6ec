"""Transformer-XL's attention: a query is compared with each key, and with how far away it stands."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import attend, linear, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class RelativeAttention(NamedTuple):
    """``(q + u)·k + (q + v)·r``: r is a map of the fixed vector of a distance, u and v are trained, one for each head.

    A third such vector goes with two that say whether query and key belong to the same segment. No map has a bias.

    Source: Yang et al. 2019 (XLNet, arXiv 1906.08237), section 2.5; transformers' XLNetRelativeAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num

    def __call__(self, name: str, stream: Sequences, run: Workload, *, causal: bool) -> Component:
        """The block on these sequences: a causal one knows distances one way, and the next; another one both ways."""
        a, d, tokens = self.n_heads, self.head_dim, stream.tokens
        pairs = run.pairs(stream, stream, causal=causal)
        distances = stream.length + 1 if causal else 2 * stream.length
        h, inner = self.d_model, a * d
        return Component(
            name,
            "attention",
            parts=(
                linear("q", h, inner, tokens, bias=False, letter="Q"),
                linear("k", h, inner, tokens, bias=False, letter="K"),
                linear("v", h, inner, tokens, bias=False, letter="V"),
                linear("r", h, inner, stream.batch * distances, bias=False, letter="R", input_gradient=False),
                *(parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs"),
                parameter("seg_embed", 2, a, d),
                relative_scores("relative", a, d, tokens, distances, pairs.scores),
                attend("attend", a, d, d, pairs),
                linear("o", inner, h, tokens, bias=False, letter="O"),
            ),
        )
