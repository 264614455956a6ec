"""BERTs made small: DistilBERT, MobileBERT, SqueezeBERT."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.blocks import FeedForward, layer
from tfcalc.blocks.attention import Attention
from tfcalc.blocks.grouped_projections import GroupedFeedForward, GroupedProjections
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.tops import Top
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops as tops
from tfcalc.families.bert import (
    FFN,
    NAMES,
    PAIRED,
    embeddings,
    grouped_by,
    layers,
    nothing,
    pooler,
    positions,
    stacked,
    token_types,
    with_tables,
)
from tfcalc.families.bert_heads import (
    BERT_HEADS,
    NEXT_SENTENCE,
    lm,
    logits,
    on_top,
    transform,
)
from tfcalc.families.windows import LAYERS
from tfcalc.leaves import embedding, linear, norm
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.workload import Sequences, Workload

PRE_CLASSIFIER = ("pre_classifier", "classifier")
DISTILBERT_TOPS: dict[str, Top] = {
    **tops.TASKS,
    **tops.apart(("vocab_transform", "vocab_layer_norm", "vocab_projector")),
    "ForSequenceClassification": tops.dense_classes(
        PRE_CLASSIFIER, dropped="seq_classif_dropout", undropped=PRE_CLASSIFIER[:1], act="relu"
    ),
    "ForMultipleChoice": tops.dense_classes(
        PRE_CLASSIFIER, 1, dropped="seq_classif_dropout", undropped=PRE_CLASSIFIER[:1], act="relu"
    ),
    "ForTokenClassification": tops.classes("classifier", dropped="dropout"),
    "ForQuestionAnswering": tops.classes("qa_outputs", dropped="qa_dropout"),
}


@family(
    "distilbert",
    architecture="DistilBertForMaskedLM",
    heads=DISTILBERT_TOPS,
    aliases={
        "dim": "hidden_size",
        "hidden_dim": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "activation": "hidden_act",
    },
)
def distilbert(c: Config) -> Module:
    """Sanh et al. 2019 (arXiv 1910.01108): BERT without token types and without a pooler."""
    names, drops = ("q_lin", "k_lin", "v_lin", "out_lin"), bool(c.get("dropout"))
    mixer = kit.attention(c, names=names, causal=False, dropout=bool(c.get("attention_dropout")))
    ffn = kit.network(c, name="ffn", names=("lin1", "lin2"))
    norms = kit.norm(c, "sa_layer_norm"), kit.norm(c, "output_layer_norm")
    layer = PostNorm("layer", (mixer, ffn), norms, drops, undropped=("attention",))
    layers = Layers("transformer", (), Stack("layer", (layer,) * c.number(LAYERS), c.size(LAYERS)))
    return Encoder("distilbert", kit.embeddings(c, kit.positions(c)).but(dropped=drops), (), layers)


def mobilebert_predictions(c: Config, run: Workload) -> Iterator[Component]:
    """Logits by the words' vectors, which are narrower than the stream, and for the rest by columns of their own."""
    h, e, vocabulary = c.size("hidden_size"), c.size("embedding_size"), c.size("vocab_size")
    if c.number("embedding_size") > c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} is larger than hidden_size", "give at most the hidden size")
    parts = (
        *transform(c, run, h, ("transform.dense", "transform.LayerNorm")),
        linear("dense", h - e, vocabulary, run.target.tokens, bias=False),
        *logits(c, run, e),
    )
    yield Component("cls.predictions", "head", parts=parts)


MOBILEBERT_HEADS: dict[str, Head] = BERT_HEADS | {
    **lm(mobilebert_predictions),
    "ForPreTraining": on_top(mobilebert_predictions, NEXT_SENTENCE),
}
WIDTHS = ("hidden_size", "intermediate_size")
NORM_KINDS = {"layer_norm": "layernorm", "no_norm": "affine"}


@family("mobilebert", architecture="MobileBertForPreTraining", heads=MOBILEBERT_HEADS)
def mobilebert(c: Config, run: Workload) -> Component:
    """Sun et al. 2020 (arXiv 2004.02984): layers narrower than the stream, with several feed-forward networks each."""
    h, tokens = c.size("hidden_size"), run.target.tokens
    stack = layer("layer", mobilebert_parts(c, run), tokens * h, copies=c.size("num_hidden_layers"))
    pooled = pooler(c, run, PAIRED) if c.flag("classifier_activation") else ()
    return Component("mobilebert", "encoder", parts=(mobilebert_words(c, run), stacked(stack), *pooled))


def mobilebert_words(c: Config, run: Workload) -> Component:
    """Narrow vectors of words; with ``trigram_input`` those of both neighbours are put beside each."""
    h, e, tokens = c.size("hidden_size"), c.size("embedding_size"), run.target.tokens
    parts = (
        embedding("word_embeddings", c.size("vocab_size"), e, tokens),
        linear("embedding_transformation", 3 * e if c.flag("trigram_input") else e, h, tokens),
        positions(c, run),
        token_types(c, run),
        scaled("LayerNorm", h, c, run.target),
    )
    return Component("embeddings", "embeddings", parts=parts)


def mobilebert_parts(c: Config, run: Workload) -> Iterator[Component]:
    """Down into the bottleneck, attention, feed-forward networks, and up again."""
    h, w, narrow = c.size("hidden_size"), c.size(inner_width(c)), c.flag("use_bottleneck")
    tokens, further = run.target.tokens, c.number("num_feedforward_networks") - 1
    if narrow:
        yield from projected("bottleneck.input", h, c.size("intra_bottleneck_size"), c, run.target)
    if narrow and c.flag("key_query_shared_bottleneck"):
        shared = nothing(run) if c.flag("use_bottleneck_attention") else run.target
        yield from projected("bottleneck.attention", h, c.size("intra_bottleneck_size"), c, shared)
    yield mobilebert_attention(c, run)
    yield scaled("attention.output.LayerNorm", w, c, run.target)
    if further > 0:
        network = mobilebert_ffn("(network)", c, run)
        parts = (network, scaled("output.LayerNorm", w, c, run.target))
        yield layer("ffn", parts, tokens * w, copies=c.size("num_feedforward_networks") - 1)
    yield mobilebert_ffn("(ffn)", c, run)
    yield scaled("output.LayerNorm", w, c, run.target)
    if narrow:
        yield from projected("output.bottleneck", w, h, c, run.target)


def inner_width(c: Config) -> str:
    """The field that is the width within a layer: ``true_hidden_size`` where the config states it."""
    if c.get("true_hidden_size") is not None:
        return "true_hidden_size"
    return "intra_bottleneck_size" if c.flag("use_bottleneck") else "hidden_size"


def mobilebert_attention(c: Config, run: Workload) -> Component:
    """Queries and keys of the narrow vectors; values of the stream itself, unless ``use_bottleneck_attention``."""
    field = inner_width(c)
    w, a, d = c.size(field), c.size("num_attention_heads"), c.quotient(field, "num_attention_heads")
    seen = w if c.flag("use_bottleneck_attention") else c.size("hidden_size")
    block = Attention(w, a, a, d, d, bias=True, value_width=seen, names=NAMES)
    return block("attention", run.target, run.target, run, causal=False)


def mobilebert_ffn(name: str, c: Config, run: Workload) -> Component:
    """One of the feed-forward networks."""
    block = FeedForward(c.size(inner_width(c)), c.size("intermediate_size"), c.word("hidden_act"), bias=True, names=FFN)
    return block(name, run.target, run)


def projected(name: str, fan_in: Num, fan_out: Num, c: Config, stream: Sequences) -> tuple[Component, Component]:
    """A map to another width, and its norm."""
    dense = linear(f"{name}.dense", fan_in, fan_out, stream.tokens)
    return dense, scaled(f"{name}.LayerNorm", fan_out, c, stream)


def scaled(name: str, width: Num, c: Config, stream: Sequences) -> Component:
    """A norm, or only its scale and shift (``no_norm``)."""
    return norm(name, NORM_KINDS[c.word("normalization_type", tuple(NORM_KINDS))], width, stream.tokens)


@family("squeezebert", architecture="SqueezeBertForMaskedLM", heads=BERT_HEADS)
def squeezebert(c: Config, run: Workload) -> Component:
    """Iandola et al. 2020 (arXiv 2006.11316): maps in groups of channels; all classes have the pooler."""
    h, f = c.size("hidden_size"), c.size("intermediate_size")
    c.size("embedding_size")  # a size, though nothing else reads it
    if c.number("embedding_size") != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} must be hidden_size", "give the hidden size")
    names = ("attention.query", "attention.key", "attention.value", "post_attention.conv1d")
    heads, d = c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    q, k, v, o = (grouped_by(c, f"{part}_groups", "hidden_size") for part in ("q", "k", "v", "post_attention"))
    inward, outward = (grouped_by(c, f"{part}_groups", *WIDTHS) for part in ("intermediate", "output"))
    mixer = GroupedProjections(h, heads, d, (q, k, v, o), names)("(attention)", run.target, run)
    ffn = GroupedFeedForward(h, f, c.word("hidden_act"), (inward, outward), ("intermediate.conv1d", "output.conv1d"))
    norms = ("post_attention.layernorm", "", "output.layernorm")
    stack = layers(c, run, mixer, norms=norms, ffn=ffn("(ffn)", run.target))
    return Component(
        "transformer",
        "encoder",
        parts=(
            embeddings(c, run, *with_tables(c, run)),
            stacked(stack._replace(name="layers")),
            *pooler(c, run, tuple(BERT_HEADS)),
        ),
    )
