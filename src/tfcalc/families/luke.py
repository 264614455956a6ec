"""BERTs that read more than words: entities, tables, how a character sounds and looks."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, labels, logits
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import total
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops
from tfcalc.nn.basic import Embedding, Linear, Stored, parameter
from tfcalc.nn.cells import CellSelection
from tfcalc.nn.embeddings import GIVEN, Positions, Segments
from tfcalc.nn.embeddings import TOKENS as EVERY
from tfcalc.nn.embeddings_kin import Spelled, Tabular
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.entities import EntityAttention, EntityClassifier, EntityEmbeddings, EntityEncoder, WithEntities
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module


def words_and_entities(c: Config, base: Module) -> Module:
    """Predictions of words, never tied, whose bias is twice there unless ``tie_word_embeddings``; and of entities."""
    h, tied = c.size("hidden_size"), c.flag("tie_word_embeddings")
    words = bert_tops.predicted("lm_head", c, h, ("dense", "layer_norm", "decoder"), "gelu")
    shared = "decoder.bias" if tied else None
    bias = Stored("bias", Weight("bias", (c.size("vocab_size"),), minor=True, key="", tied_to=shared))
    decoder = words.decoder.but(tied_to=None, bias_of=None)
    return WithEntities("", base, words.but(decoder=decoder, bias=bias), **bert_tops.MASKED, entity_head=entities(c))


def entities(c: Config) -> Predictions:
    """Predictions of entities, by their own vectors (``tie_word_embeddings``)."""
    h, e, known = c.size("hidden_size"), c.size("entity_emb_size"), c.size("entity_vocab_size")
    dense, normed = Linear("transform.dense", h, e, "", True), kit.norm(c, "transform.LayerNorm", e)
    decoder = logits("decoder", e, known, tied=c.flag("tie_word_embeddings"))
    bias = parameter("bias", known, minor=True)
    return Predictions("entity_predictions", dense, normed, decoder, bias, c.word("hidden_act"))


def of_entities(vectors: int, *, bias: bool = True) -> Top:
    """Classes of so many vectors together: of one entity, of two, or of one with its first word and its last."""

    def top(c: Config, base: Module) -> Module:
        assert isinstance(base, EntityEncoder)
        made = Linear("classifier", vectors * c.size("hidden_size"), labels(c), "", bias)
        return EntityClassifier("", base, made, vectors > base.entities, kit.drops(c))

    return top


LUKE_TOPS: dict[str, Top] = {
    **bert_tops.TASKS,
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
    mixer = kit.attention(c, of=EntityAttention, causal=False, asking=asking, entities=number)
    return EntityEncoder(
        "luke",
        kit.embeddings(c, *kit.with_tables(c, EVERY)),
        (),
        Layers("encoder", (), kit.stack(c, mixer)),
        pooler=kit.pooler(c, LUKE_POOLED),
        pools=c.head in kit.PAIRED,
        entity_table=entity_embeddings(c),
        entities=number,
    )


def entity_embeddings(c: Config) -> Module:
    """Narrow vectors of entities, widened to the hidden size."""
    e, h = c.size("entity_emb_size"), c.size("hidden_size")
    narrow = c.number("entity_emb_size") != c.number("hidden_size")
    widened = Linear("entity_embedding_dense", e, h) if narrow else None
    places = Positions("position_embeddings", c.size("max_position_embeddings"), h, EVERY)
    tables = (Embedding("entity_embeddings", c.size("entity_vocab_size"), e), places, kit.token_types(c, indices=EVERY))
    return EntityEmbeddings("entity_embeddings", tables, kit.norm(c, "LayerNorm"), kit.drops(c), widened=widened)


def cells(c: Config, base: Module) -> Module:
    """Which cells answer the question, and how they are to be aggregated."""
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
    **bert_tops.TASKS,
    **bert_tops.lm(bert_tops.PREDICTIONS),
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
    words = kit.embeddings(c, kit.positions(c, indices=EVERY), *tables)
    table = Tabular(words.name, words.tables, words.norm, words.dropped, kinds=len(sizes))
    read = pooled if c.number("num_aggregation_labels", least=0) else pooled[:2]
    return kit.bert_like("tapas", c, pooled=pooled).but(table=table, pools=c.head in read)


ROC_TOPS: dict[str, Top] = {**bert_tops.BERT_TOPS, "ForPreTraining": bert_tops.masked(bert_tops.PREDICTIONS)}


@family("roc_bert", heads=ROC_TOPS)
def roc_bert(c: Config) -> Module:
    """Su et al. 2022 (RoCBert, ACL): BERT with how each character sounds and looks, put beside it or added."""
    h, words = c.size("hidden_size"), kit.embeddings(c, *kit.with_tables(c))
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
    return kit.bert_like("roc_bert", c).but(table=table)
