"""Positions that work inside attention: what each self-attention does with distances, and what its layers share.

================  =================================================================================
ALiBi             slopes times distances, added to the scores: no parameters, a buffer of ``a``
T5                ``B·a`` numbers for all layers of a stack, added to the scores
multiplicative    ``(2D + 1)a`` numbers in each layer, times the scores
relative          ``(2D + 1)(d + d_v)`` in each layer: vectors beside those of keys and values
Transformer-XL    ``h·a·d + 2·a·d`` in each layer: a map of the distances' sinusoids, two biases of queries
DeBERTa           ``2D·h`` for all layers of a stack; in each ``2·h·a·d`` and biases: maps to a key and a query
================  =================================================================================

They are counted; no program is known that runs them as they stand here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.core.pairs import Pairs
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.distances import (
    plus_bias,
    plus_vector,
    rows_by_distance,
    times_factors,
    with_vectors,
)
from tfcalc.ops.keeping import read_before
from tfcalc.ops.relative import with_distances
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.core.patterns import Pattern


class Table(Module):
    """A trained row of this ``width`` for each distance, or for each bucket of distances."""

    kind = "position"

    letter: str
    rows: Num
    width: Num

    def held(self) -> Cost:
        """The rows."""
        return Cost(weights=(Weight(self.letter, (self.rows, self.width)),))

    def forward(self, x: Tensor, pairs: Pairs) -> Tensor:
        """One for each of the ``pairs`` of a sequence."""
        (table,) = self.weights(x.trace)
        return rows_by_distance(table, pairs.scores)


class Distances(Module):
    """What is done to the scores of queries for how far keys stand from them."""

    kind = "position"

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Of b × a × l × d."""
        raise NotImplementedError


class FixedBias(Distances):
    """A slope of each head times the distance (Press et al. 2021, arXiv 2108.12409)."""

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Added to each score."""
        return plus_bias(q, attention.scores(ctx), trained=False)


class TrainedBias(Distances):
    """A number of a table that all layers share (Raffel et al. 2019, arXiv 1910.10683)."""

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Added to each score."""
        return plus_bias(q, attention.scores(ctx), trained=True)


class Factors(Distances):
    """A number for each head and distance (Huang et al. 2020, arXiv 2009.13658, method 2)."""

    table: Table

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """Times each score."""
        self.table(q, attention.of_one_sequence(ctx))
        return times_factors(q, attention.scores(ctx))


class Vectors(Distances):
    """A vector for each distance, beside those of keys and of values (Shaw et al. 2018, arXiv 1803.02155)."""

    keys: Table
    values: Table

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """With queries and keys, and with what the scores weigh."""
        pairs, alone = attention.pairs(ctx), attention.of_one_sequence(ctx)
        self.keys(q, alone)
        self.values(q, alone)
        made = with_vectors(q, "with_keys", "Q A_Kᵀ", attention.key_dim, pairs, attention.scores(ctx))
        mixed = attention.heads * attention.value_dim * ctx.stream.tokens
        return with_vectors(made, "with_values", "P A_V", attention.value_dim, pairs, mixed)


class Shift(Stored):
    """A trained vector of each head that is added to its queries."""

    def forward(self, q: Tensor) -> Tensor:
        """Their sum."""
        return plus_vector(q, q.trace.weight(self.tensor))


class MappedSinusoids(Distances):
    """Sinusoids of the distances, through a map of each layer's own (Dai et al. 2019, arXiv 1901.02860).

    The scores of all distances are computed and shifted into place, whatever a mask or a pattern leaves.
    """

    map: Linear
    u: Shift
    v: Shift

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """With queries, beside the keys."""
        back_only = attention.causal or ctx.run.decoding
        distances = ctx.stream.seen if back_only else 2 * ctx.stream.length - 1
        rows: Num = 0 if read_before(ctx.stream) else distances
        self.map(q.trace.new((rows, self.map.fan_in), q.dtype, "sinusoids"))
        self.u(q)
        self.v(q)
        return with_distances(q, "scores", distances, attention.pairs(ctx).scores)


class MappedVectors(Distances):
    """Vectors that all layers share, through maps to a key and a query (He et al. 2020, arXiv 2006.03654).

    Queries are compared with the keys of positions, and keys with their queries; keys keep their scores.
    """

    key_map: Linear
    query_map: Linear
    rows: Num

    def forward(self, q: Tensor, attention: Located, ctx: Context) -> Tensor:
        """With queries and with keys."""
        rows: Num = 0 if read_before(ctx.stream) else self.rows
        vectors = q.trace.data((rows, self.key_map.fan_in), "positions")
        self.key_map(vectors)
        self.query_map(vectors)
        for name in ("content_to_position", "position_to_content"):
            q = with_distances(q, name, self.rows, attention.pairs(ctx).scores)
        return q


class Located(Attention):
    """Self-attention that is told of distances (``position``), or of which a ``pattern`` leaves only some pairs."""

    pattern: Pattern | None = None
    position: Distances | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The maps, and between them the positions."""
        return (part for part in (*self.inward, self.position, self.output) if part is not None)

    def pairs(self, ctx: Context) -> Pairs:
        """Those that the pattern leaves."""
        return ctx.run.pairs(ctx.stream, ctx.stream, causal=self.causal, pattern=self.pattern)

    def of_one_sequence(self, ctx: Context) -> Pairs:
        """Those of which each asks a table for a row, whatever the batch."""
        return self.pairs(ctx._replace(stream=ctx.stream._replace(batch=1)))

    def scores(self, ctx: Context) -> Num:
        """Of all heads."""
        return self.heads * self.pairs(ctx).scores

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, ctx: Context, name: str = "attend") -> Tensor:
        if self.position is not None:
            self.position(q, self, ctx)
        return super()._attended(q, k, v, ctx, name)
