"""Positions that work inside attention: what a stack holds for all its layers, and what each self-attention does."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.blocks.attention import Attention
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.errors import InvalidModel
from tfcalc.leaves import buffer, linear, parameter
from tfcalc.leaves.distance import distance_bias, distance_factors, distance_table, query_bias, relative_vectors
from tfcalc.leaves.relative import relative_scores
from tfcalc.workload import Sequences, Workload


class Positions(NamedTuple):
    """A ``kind`` of positions, for distances up to ``max_distance`` each way, or sorted into ``buckets``.

    ================  =================================================================================
    rotary            queries and keys are turned by an angle: no parameters
    alibi             slopes times distances, added to the scores: no parameters, a buffer of ``a``
    t5                ``B·a`` numbers for all layers of a stack, added to the scores
    multiplicative    ``(2D + 1)a`` numbers in each layer, times the scores
    relative          ``(2D + 1)(d + d_v)`` in each layer: vectors beside those of keys and values
    transformer-xl    ``h·a·d + 2·a·d`` in each layer: a map of the distances' sinusoids, two biases of queries
    deberta           ``2D·h`` for all layers of a stack; in each ``2·h·a·d`` and biases: maps to a key and a query
    ================  =================================================================================

    ``runs`` says whether the stack runs: when a token is decoded, an encoder before it does not.

    Source: Su et al. 2021 (arXiv 2104.09864); Press et al. 2021 (arXiv 2108.12409); Raffel et al. 2019 (arXiv
    1910.10683); Huang et al. 2020 (arXiv 2009.13658), method 2; Shaw et al. 2018 (arXiv 1803.02155); Dai et al. 2019
    (arXiv 1901.02860); He et al. 2020 (arXiv 2006.03654).
    """

    kind: str
    max_distance: Num | None
    buckets: Num | None
    attention: Attention
    stream: Sequences
    run: Workload
    causal: bool
    runs: bool

    def within(self) -> Attention:
        """The attention with these positions in it."""
        if self.kind == "rotary":
            return self.attention._replace(rotary=self.attention.head_dim)
        parts = {
            "alibi": self._fixed_bias,
            "t5": self._trained_bias,
            "multiplicative": self._factors,
            "relative": self._vectors,
            "transformer-xl": self._mapped_sinusoids,
            "deberta": self._mapped_vectors,
        }[self.kind]()
        return self.attention._replace(within=(Component("position", "position", parts=parts),))

    def shared(self) -> tuple[Component, ...]:
        """What all layers of the stack use."""
        match self.kind:
            case "alibi":
                return (buffer("slopes", self.attention.n_heads)._replace(kind="position"),)
            case "t5" if self.buckets is not None:
                return (distance_table("position", "B", self.buckets, self.attention.n_heads, self._seen),)
            case "deberta":
                return (parameter("position", self._rows, self.attention.d_model)._replace(kind="position"),)
        return ()

    def _fixed_bias(self) -> tuple[Component, ...]:
        return (distance_bias("bias", self._scores, trained=False),)

    def _trained_bias(self) -> tuple[Component, ...]:
        return (distance_bias("bias", self._scores, trained=True),)

    def _factors(self) -> tuple[Component, ...]:
        return (
            distance_table("table", "w", self._distances, self.attention.n_heads, self._seen),
            distance_factors("factors", self._scores),
        )

    def _vectors(self) -> tuple[Component, ...]:
        a, d, d_v = self.attention.n_heads, self.attention.head_dim, self.attention.value_dim
        return (
            distance_table("keys", "A_K", self._distances, d, self._seen),
            distance_table("values", "A_V", self._distances, d_v, self._seen),
            relative_vectors("with_keys", "Q A_Kᵀ", a, d, self._pairs, self._scores),
            relative_vectors("with_values", "P A_V", a, d_v, self._pairs, a * d_v * self.stream.tokens),
        )

    def _mapped_sinusoids(self) -> tuple[Component, ...]:
        """The scores of all distances are computed and shifted into place, whatever a mask or a pattern leaves."""
        h, a, d, tokens = self.attention.d_model, self.attention.n_heads, self.attention.head_dim, self.stream.tokens
        back_only = self.causal or self.run.decoding
        distances = self.stream.seen if back_only else 2 * self.stream.length - 1
        rows: Num = distances if self.runs else 0
        return (
            linear("map", h, a * d, rows, bias=False, letter="R", input_gradient=False),
            query_bias("u", a, d, tokens),
            query_bias("v", a, d, tokens),
            relative_scores("scores", a, d, tokens, distances, self._pairs.scores),
        )

    def _mapped_vectors(self) -> tuple[Component, ...]:
        """Queries with the positions' keys, and keys with the positions' queries; keys keep their scores."""
        h, a, d, tokens = self.attention.d_model, self.attention.n_heads, self.attention.head_dim, self.stream.tokens
        rows: Num = self._rows if self.runs else 0
        return (
            linear("key_map", h, a * d, rows, bias=self.attention.bias, letter="Kr"),
            linear("query_map", h, a * d, rows, bias=self.attention.bias, letter="Qr"),
            relative_scores("content_to_position", a, d, tokens, self._rows, self._pairs.scores),
            relative_scores("position_to_content", a, d, tokens, self._rows, self._pairs.scores),
        )

    @property
    def _pairs(self) -> Pairs:
        return self.run.pairs(self.stream, self.stream, causal=self.causal, pattern=self.attention.pattern)

    @property
    def _scores(self) -> Num:
        return self.attention.n_heads * self._pairs.scores

    @property
    def _seen(self) -> Num:
        """The pairs of one sequence, for each of which a row is looked up."""
        return self._replace(stream=self.stream._replace(batch=1))._pairs.scores

    @property
    def _rows(self) -> Num:
        if self.max_distance is None:
            raise InvalidModel(f"{self.kind} positions without max_distance", "give max_distance")
        return 2 * self.max_distance

    @property
    def _distances(self) -> Num:
        return self._rows + 1
