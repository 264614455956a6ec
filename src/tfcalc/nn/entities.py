"""Encoders that read entities beside words, with vectors of their own (LUKE)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Encoder
from tfcalc.nn.model import Predictions, WithHead
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import dropout
from tfcalc.ops.shapes import cat, first, narrow, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class EntityEmbeddings(Embeddings):
    """The same, whose first table is narrower than the stream, and ``widened``."""

    widened: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The map behind its table."""
        table, *others = self.tables
        return (part for part in (table, self.widened, *others, self.norm) if part is not None)

    def _summed(self, x: Tensor, ctx: Context) -> Tensor:
        if self.widened is None:
            return super()._summed(x, ctx)
        wide = Widened("", self.tables[0], self.widened)
        return self.but(tables=(wide, *self.tables[1:]), widened=None)._summed(x, ctx)


class Widened(Module):
    """A table and a map of its rows."""

    table: Module
    map: Linear

    def __call__(self, x: Tensor, *given: object) -> Tensor:
        """It is no module of its own."""
        return self.map(self.table(x, *given))


class EntityAttention(Attention):
    """Words ask entities, and entities words and each other, with queries of their own.

    ``asking`` are those maps: of words for entities, of entities for words, and for entities. ``entities`` stand at the
    end of each sequence, if there are any.

    Source: Yamada et al. 2020 (LUKE, arXiv 2010.01057), section 3.2.
    """

    asking: tuple[Linear, ...] = ()
    entities: int = 0

    @property
    def parts(self) -> Iterator[Module]:
        """All queries first."""
        query, *others = self.inward
        return iter((query, *self.asking, *others, self.output))

    def _projected(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        if not self.entities or not self.asking:
            return super()._projected(x, source, ctx)
        query, key, value = self.inward
        of_entities, to_words, to_entities = self.asking
        words, entities = split(x, [ctx.stream.length - self.entities, self.entities], axis=1)
        of_entities(words)
        to_entities(entities)
        q = cat([query(words), to_words(entities)], axis=1)
        a, d = self.heads, self.key_dim
        made = (transpose(reshape(each, *each.shape[:2], a, d), 1, 2) for each in (q, key(x), value(x)))
        return tuple(made)  # type: ignore[return-value]  # three


class EntityEncoder(Encoder):
    """An encoder of words, and of so many ``entities`` that stand behind them, with a table of their own."""

    entity_table: Module | None = None
    entities: int = 0

    @property
    def parts(self) -> Iterator[Module]:
        """Both tables first."""
        parts = (self.table, self.entity_table, self.layers, self.pooler)
        return (part for part in parts if part is not None)

    def together(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each token and each entity."""
        assert self.entity_table is not None
        with x.trace.inside(self):
            batch, length = x.shape
            ids = x.trace.given((batch, self.entities), "int64", "entities")
            words, whole = self.table(x, ctx), length + self.entities
            made = cat([words, self.entity_table(ids, ctx)], axis=1)
            return self.layers(made, ctx._replace(stream=Sequences(batch, whole)))


class EntityClassifier(Module):
    """Classes of entities: of one, of two together, or of one with its first word and its last (``span``)."""

    kind = "model"

    base: EntityEncoder
    map: Linear
    span: bool = False
    dropped: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made, count = self.base.together(x, ctx), self.base.entities
        read = reshape(narrow(made, count), x.shape[0], count * made.width)
        if self.span:
            read = cat([first(made), first(made), read])
        return self.map(dropout(read, "classifier_dropout") if self.dropped and ctx.drops else read)


class WithEntities(WithHead):
    """A language model that could predict entities, too, where there are any."""

    entity_head: Predictions | None = None
