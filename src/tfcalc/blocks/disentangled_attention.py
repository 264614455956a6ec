"""Attention that compares content with content, content with position, and position with content."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import attend, linear, parameter
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class DisentangledAttention(NamedTuple):
    """``q·k + q·P_k + P_q·k``: P_k (``c2p``) and P_q (``p2c``) are maps of the vectors of ``distances``.

    ``fused`` queries, keys and values come of one matrix; then queries, values and P_q have a bias, and keys and P_k
    none. ``shared`` maps of queries and keys make P_q and P_k too. ``talking`` heads are mixed before and after the
    softmax.

    Source: He et al. 2020 (DeBERTa, arXiv 2006.03654), section 3.1; transformers' DisentangledSelfAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    distances: Num
    kinds: tuple[str, ...]
    fused: bool = False
    shared: bool = False
    talking: bool = False

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        h, a, d, tokens = self.d_model, self.n_heads, self.head_dim, stream.tokens
        pairs = run.pairs(stream, stream, causal=False)
        return Component(
            name,
            "attention",
            parts=(
                *(self._fused(tokens) if self.fused else self._separate(tokens)),
                *self._positions(tokens, pairs.scores),
                attend("attend", a, d, d, pairs),
                linear("output.dense", h, h, tokens, letter="O"),
            ),
        )

    def _fused(self, tokens: Num) -> Iterator[Component]:
        inner = self.n_heads * self.head_dim
        yield linear("self.in_proj", self.d_model, 3 * inner, tokens, bias=False, letter="QKV")
        yield parameter("self.q_bias", inner, minor=True)
        yield parameter("self.v_bias", inner, minor=True)

    def _separate(self, tokens: Num) -> Iterator[Component]:
        for part in ("query", "key", "value"):
            yield linear(
                f"self.{part}_proj", self.d_model, self.n_heads * self.head_dim, tokens, letter=part[0].upper()
            )

    def _positions(self, tokens: Num, scores: Num) -> Iterator[Component]:
        h, inner, distances = self.d_model, self.n_heads * self.head_dim, self.distances
        key, query = (
            ("self.pos_proj", "self.pos_q_proj") if self.fused else ("self.pos_key_proj", "self.pos_query_proj")
        )
        if not self.shared and "c2p" in self.kinds:
            yield linear(key, h, inner, distances, bias=not self.fused)
        if not self.shared and "p2c" in self.kinds:
            yield linear(query, h, inner, distances)
        for kind in self.kinds:
            yield relative_scores(kind, self.n_heads, self.head_dim, tokens, distances, scores)
        for place in ("logits", "weights") if self.talking else ():
            yield linear(f"self.head_{place}_proj", self.n_heads, self.n_heads, scores, bias=False)
