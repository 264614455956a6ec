"""BERTs that read more than words: entities, tables, how a character sounds and looks."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, labels, logits
from tfcalc.core.component import Weight
from tfcalc.core.number import total
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Embedding, Linear, Parameter, parameter
from tfcalc.nn.embeddings import GIVEN, Embeddings, Positions, Segments
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import dropout
from tfcalc.ops.products import row_products
from tfcalc.ops.shapes import cat, first, narrow, reshape, split, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import Spelled, Tabular


class CellSelection(Module):
    """A model, a number for each token that says whether its cell is chosen, and one for the column, without gradient.

    How the chosen cells are to be aggregated is told by classes of the whole sequence, where there are any.

    Source: Herzig et al. 2020 (TAPAS, arXiv 2004.02349), section 2; transformers' TapasForQuestionAnswering.
    """

    kind = "model"

    base: Encoder
    factors: Parameter
    bias: Parameter
    column_factors: Parameter
    column_bias: Parameter
    aggregation: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of the tokens' cells for token ids."""
        made, whole = (self.base(x, ctx), None) if self.aggregation is None else self.base.pooled(x, ctx)
        logits = row_products(made, self.factors.weight(x.trace), "X w", "(cells)")
        with x.trace.without_gradients():
            row_products(made, self.column_factors.weight(x.trace), "X w_column", "(cells)")
        if self.aggregation is not None and whole is not None:
            self.aggregation(whole)
        return logits


class EntityEmbeddings(Embeddings):
    """Embeddings whose first table is narrower than the residual stream, and ``widened``."""

    widened: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The map behind its table."""
        table, *others = self.tables
        return (part for part in (table, self.widened, *others, self.norm) if part is not None)

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the tables' vectors, the first widened."""
        if self.widened is None:
            return super().sum_embeddings(x, ctx)
        wide = Widened("", self.tables[0], self.widened)
        return self.replace(tables=(wide, *self.tables[1:]), widened=None).sum_embeddings(x, ctx)


class Widened(Module):
    """A table and a map of its rows."""

    table: Module
    map: Linear

    def __call__(self, x: Tensor, *given: object) -> Tensor:
        """Return the mapped rows; the pair is no module of its own."""
        return self.map(self.table(x, *given))


class EntityAttention(Attention):
    """Words ask entities, and entities words and each other, with queries of their own.

    ``asking`` are those maps: of words for entities, of entities for words, and for entities. ``entities`` are at the
    end of each sequence, if there are any.

    Source: Yamada et al. 2020 (LUKE, arXiv 2010.01057), section 3.2.
    """

    asking: tuple[Linear, ...] = ()
    entities: int = 0

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, all query maps first."""
        query, *others = self.inward
        return iter((query, *self.asking, *others, self.output))

    def project(self, x: Tensor, source: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Project words and entities by maps of their own."""
        if not self.entities or not self.asking:
            return super().project(x, source, ctx)
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
    """An encoder of words followed by a number of ``entities``, with a table of their own."""

    entity_table: Module | None = None
    entities: int = 0

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, both tables first."""
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
        """Return the logits of the classes for token ids."""
        made, count = self.base.together(x, ctx), self.base.entities
        read = reshape(narrow(made, count), x.shape[0], count * made.width)
        if self.span:
            read = cat([first(made), first(made), read])
        return self.map(dropout(read, "classifier_dropout") if self.dropped and ctx.drops else read)


class WithEntities(ModelWithHead):
    """A language model that could predict entities, too, where there are any."""

    entity_head: Predictions | None = None


def words_and_entities(c: Config, base: Module) -> Module:
    """Predictions of words, never tied, whose bias is twice there unless ``tie_word_embeddings``; and of entities."""
    h, tied = c.size("hidden_size"), c.flag("tie_word_embeddings")
    words = encoders.predicted("lm_head", c, h, ("dense", "layer_norm", "decoder"), "gelu")
    shared = "decoder.bias" if tied else None
    bias = Parameter("bias", Weight("bias", (c.size("vocab_size"),), minor=True, key="", tied_to=shared))
    decoder = words.decoder.replace(tied_to=None, bias_of=None)
    return WithEntities("", base, words.replace(decoder=decoder, bias=bias), **encoders.MASKED, entity_head=entities(c))


def entities(c: Config) -> Predictions:
    """Predictions of entities, by their own vectors (``tie_word_embeddings``)."""
    h, e, known = c.size("hidden_size"), c.size("entity_emb_size"), c.size("entity_vocab_size")
    dense, normed = Linear("transform.dense", h, e, "", True), encoders.norm(c, "transform.LayerNorm", e)
    decoder = logits("decoder", e, known, tied=c.flag("tie_word_embeddings"))
    bias = parameter("bias", known, minor=True)
    return Predictions("entity_predictions", dense, normed, decoder, bias, c.word("hidden_act"))


def of_entities(vectors: int, *, bias: bool = True) -> Top:
    """Classes of ``vectors`` vectors together: of one entity, of two, or of one with its first word and its last."""

    def top(c: Config, base: Module) -> Module:
        assert isinstance(base, EntityEncoder)
        made = Linear("classifier", vectors * c.size("hidden_size"), labels(c), "", bias)
        return EntityClassifier("", base, made, vectors > base.entities, encoders.drops(c))

    return top


LUKE_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    "ForMaskedLM": words_and_entities,
    "ForEntityClassification": of_entities(1),
    "ForEntityPairClassification": of_entities(2, bias=False),
    "ForEntitySpanClassification": of_entities(3),
}
ENTITIES = {"ForEntityClassification": 1, "ForEntityPairClassification": 2, "ForEntitySpanClassification": 1}
"""How many entities the classes read that ask for some."""
LUKE_POOLED = tuple(head for head in LUKE_TOPS if head not in ("ForTokenClassification", "ForQuestionAnswering"))


@family("luke", heads=LUKE_TOPS)
def luke(c: Config) -> Module:
    """Yamada et al. 2020 (arXiv 2010.01057): RoBERTa that reads entities too, with queries for each pair of kinds."""
    h, number = c.size("hidden_size"), ENTITIES.get(c.head, 0)
    names = ("w2e_query", "e2w_query", "e2e_query") if c.flag("use_entity_aware_attention") else ()
    asking = tuple(Linear(f"self.{name}", h, h, "", True) for name in names)
    mixer = encoders.attention(c, of=EntityAttention, causal=False, asking=asking, entities=number)
    return EntityEncoder(
        "luke",
        encoders.embeddings(c, *encoders.with_tables(c, EVERY)),
        (),
        Layers("encoder", (), encoders.stack(c, mixer)),
        pooler=encoders.pooler(c, LUKE_POOLED),
        pools=c.head in encoders.PAIRED,
        entity_table=entity_embeddings(c),
        entities=number,
    )


def entity_embeddings(c: Config) -> Module:
    """Narrow vectors of entities, widened to the hidden size."""
    e, h = c.size("entity_emb_size"), c.size("hidden_size")
    narrow = c.number("entity_emb_size") != c.number("hidden_size")
    widened = Linear("entity_embedding_dense", e, h) if narrow else None
    places = Positions("position_embeddings", c.size("max_position_embeddings"), h, EVERY)
    tables = (
        Embedding("entity_embeddings", c.size("entity_vocab_size"), e),
        places,
        encoders.token_types(c, indices=EVERY),
    )
    return EntityEmbeddings(
        "entity_embeddings", tables, encoders.norm(c, "LayerNorm"), encoders.drops(c), widened=widened
    )


def cells(c: Config, base: Module) -> Module:
    """Select the cells that answer the question, and classify how they are to be aggregated."""
    h, count = c.size("hidden_size"), c.number("num_aggregation_labels", least=0)
    aggregation = Linear("aggregation_classifier", h, c.size("num_aggregation_labels"), "", True) if count else None
    assert isinstance(base, Encoder)
    return CellSelection(
        "",
        base,
        parameter("output_weights", h),
        parameter("output_bias", 1, minor=True),
        parameter("column_output_weights", h),
        parameter("column_output_bias", 1, minor=True),
        aggregation,
    )


TAPAS_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.lm(encoders.PREDICTIONS),
    "ForQuestionAnswering": cells,
}


@family("tapas", heads=TAPAS_TOPS)
def tapas(c: Config) -> Module:
    """Herzig et al. 2020 (arXiv 2004.02349): BERT with a table for each thing that is known of a cell."""
    sizes = c.numbers("type_vocab_sizes")
    tables = (
        Segments(f"token_type_embeddings_{place}", rows, c.size("hidden_size"), GIVEN)
        for place, rows in enumerate(sizes)
    )
    pooled = ("Model", "ForSequenceClassification", "ForQuestionAnswering")
    words = encoders.embeddings(c, encoders.positions(c, indices=EVERY), *tables)
    table = Tabular(words.name, words.tables, words.norm, words.dropped, kinds=len(sizes))
    read = pooled if c.number("num_aggregation_labels", least=0) else pooled[:2]
    return encoders.bert_like("tapas", c, pooled=pooled).replace(table=table, pools=c.head in read)


ROC_TOPS: dict[str, Top] = {**encoders.BERT_TOPS, "ForPreTraining": encoders.masked(encoders.PREDICTIONS)}


@family("roc_bert", heads=ROC_TOPS)
def roc_bert(c: Config) -> Module:
    """Su et al. 2022 (RoCBert, ACL): BERT with how each character sounds and looks, put beside it or added."""
    h, words = c.size("hidden_size"), encoders.embeddings(c, *encoders.with_tables(c))
    widths = {name: c.size(f"{name}_embed_dim") for name in ("shape", "pronunciation")}
    read = [name for name in widths if c.flag(f"enable_{name}")]
    table = Spelled(
        words.name,
        words.tables,
        words.norm,
        words.dropped,
        beside=tuple(Embedding(f"{name}_embed", c.size(f"{name}_vocab_size"), width) for name, width in widths.items()),
        read=tuple(f"{name}_embed" for name in read),
        together=Linear("map_inputs_layer", h + total(widths[name] for name in read), h, "", True)
        if c.flag("concat_input")
        else None,
    )
    return encoders.bert_like("roc_bert", c).replace(table=table)
