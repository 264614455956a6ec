"""Embeddings of token ids: tables of words, of positions and of segments; and their sum."""

from __future__ import annotations

from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm, PositionVectors
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, dropout
from tfcalc.ops.rows import embedding, position, sines
from tfcalc.ops.shapes import expand
from tfcalc.tape.tensor import Call, Shape, Tensor

PLACES, TOKENS, BUFFER, GIVEN = "places", "tokens", "buffer", "given"
"""How position ids arise: made for each place of a sequence, or for each token of each sequence, a buffer of the
model, or those of the context (``places``)."""


def rows_asked(ids: Tensor, indices: str, ctx: Context) -> Tensor:
    """The numbers of rows, for each place or each token."""
    if indices == GIVEN:
        assert ctx.places is not None
        return ids.trace.view(ctx.places, ctx.places.shape[:2], None)
    shape = ids.shape if indices == TOKENS else (1, *ids.shape[1:])
    return ids.trace.given(shape, "int64", indices) if indices == BUFFER else numbered(ids, shape)


def numbered(ids: Tensor, shape: Shape) -> Tensor:
    """The numbers of places, which a program makes."""
    return ids.trace.call(Call("positions", (), shape, "int64", kernels=("arange", "add")))


class Positions(PositionVectors):
    """A trained vector of this ``width`` for each position."""

    indices: str = PLACES

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the vectors of these tokens' positions."""
        (table,) = self.weights(x.trace)
        return position(table, rows_asked(x, self.indices, ctx), x.elements)


class Sines(Module):
    """Sines and cosines of each position: computed anew in each process, or stored in ``rows`` rows.

    They are parameters that are not trained, or a ``buffer``.
    """

    kind = "position"

    width: Num
    rows: Num | None = None
    indices: str = PLACES
    buffer: bool = False

    def own_params(self) -> Cost:
        """P, or nothing."""
        if self.rows is None:
            return Cost()
        table = Weight("P", (self.rows, self.width))
        return Cost(buffers=(table,)) if self.buffer else Cost(weights=(table._replace(frozen=True),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the sines and cosines of these tokens' positions."""
        return sines(rows_asked(x, self.indices, ctx), self.width, x.elements, x.trace.weights_format)


class AngleTable(Module):
    """Sines and cosines of each position, by which layers turn queries and keys: parameters that are not trained."""

    kind = "position"

    rows: Num
    width: Num

    def own_params(self) -> Cost:
        """P."""
        return Cost(weights=(Weight("P", (self.rows, self.width), frozen=True),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return ``x`` unchanged: nothing is added to it."""
        return x


class Segments(Module):
    """A vector of this ``width`` for each kind of token: the first sentence, the second."""

    kind = "embedding"

    rows: Num
    width: Num
    indices: str = PLACES

    def own_params(self) -> Cost:
        """E."""
        return Cost(weights=(Weight("E", (self.rows, self.width)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the segment vectors of these tokens; where sequences were padded, their segments were, too."""
        (table,) = self.weights(x.trace)
        filled = ctx.filled is not None and not x.trace.same_size(ctx.unfilled, x.shape[1])
        return embedding(table, expand(rows_asked(x, TOKENS if filled else self.indices, ctx), *x.shape))


class Embeddings(Module):
    """The vectors of words and of what is added to them, a norm of their sum, and dropout (BERT).

    A ``projection`` may come before the dropout.
    """

    kind = "embeddings"

    tables: tuple[Module, ...]
    norm: Norm | None
    dropped: bool = False
    projection: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of token ids."""
        made = self.sum_embeddings(x, ctx)
        if self.norm is not None:
            made = self.norm(made, ctx)
        made = made if self.projection is None else self.projection(made)
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the vectors of all tables."""
        made = self.tables[0](x, ctx)
        for table in self.tables[1:]:
            made = add(made, table(x, ctx))
        return made


class OnPage(Embeddings):
    """Embeddings with further tables for the corners of each token's box on a page (LayoutLM)."""

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the vectors of all tables, with the corners of each token's box."""
        corners = x.trace.new((*x.shape, 4), "int64", "boxes")
        return super().sum_embeddings(x, ctx._replace(places=corners))
