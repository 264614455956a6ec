"""BERTs made small: DistilBERT, MobileBERT, SqueezeBERT."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.families import bert_tops as tops
from tfcalc.families.bert_kit import FFN, NAMES
from tfcalc.families.windows import LAYERS
from tfcalc.nn.attention import OWN_SOFTMAX
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.grouped import GroupedMap
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.mobile import MobileLayer, NarrowAttention, Narrowed, Trigrams, WiderPredictions
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack

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


def mobilebert_predictions(c: Config) -> Predictions:
    """Logits by the words' vectors, which are narrower than the stream, and for the rest by columns of their own."""
    h, e, vocabulary = c.size("hidden_size"), c.size("embedding_size"), c.size("vocab_size")
    if c.number("embedding_size") > c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} is larger than hidden_size", "give at most the hidden size")
    made = tops.predicted("cls.predictions", c, h)
    own = made.__dict__ | {"decoder": made.decoder.but(fan_in=e)}
    return WiderPredictions(**own, rest=Linear("dense", h - e, vocabulary))


MOBILEBERT_TOPS: dict[str, Top] = {
    **tops.BERT_TOPS,
    **tops.lm(mobilebert_predictions),
    "ForPreTraining": tops.pretraining(mobilebert_predictions, "cls.seq_relationship"),
}
WIDTHS = ("hidden_size", "intermediate_size")
NORM_KINDS = {"layer_norm": "layernorm", "no_norm": "affine"}


@family("mobilebert", architecture="MobileBertForPreTraining", heads=MOBILEBERT_TOPS)
def mobilebert(c: Config) -> Module:
    """Sun et al. 2020 (arXiv 2004.02984): layers narrower than the stream, with several feed-forward networks each."""
    layers = Stack("layer", (mobilebert_layer(c),) * c.number(LAYERS), c.size(LAYERS))
    pooler = kit.pooler(c, kit.PAIRED) if c.flag("classifier_activation") else None
    stack = Layers("encoder", (), layers)
    return Encoder("mobilebert", mobilebert_words(c), (), stack, pooler=pooler, pools=c.head in kit.PAIRED)


def mobilebert_words(c: Config) -> Module:
    """Narrow vectors of words; with ``trigram_input`` those of both neighbours are put beside each."""
    h, e, trigrams = c.size("hidden_size"), c.size("embedding_size"), c.flag("trigram_input")
    words = Embedding("word_embeddings", c.size("vocab_size"), e)
    tables = (words, kit.positions(c), kit.token_types(c, indices=TOKENS))
    widened = Linear("embedding_transformation", 3 * e if trigrams else e, h, "", True)
    norm = scaled("LayerNorm", h, c)
    return Trigrams("embeddings", tables, norm, kit.drops(c), widened=widened, neighbours=trigrams)


def mobilebert_layer(c: Config) -> MobileLayer:
    """Down into the bottleneck, attention, feed-forward networks, and up again."""
    h, w, narrow = c.size("hidden_size"), c.size(inner_width(c)), c.flag("use_bottleneck")
    bottleneck = c.size("intra_bottleneck_size") if narrow else None
    shared = narrow and c.flag("key_query_shared_bottleneck")
    further = c.number("num_feedforward_networks") - 1
    one = PostNorm("ffn", (mobilebert_ffn("(network)", c),), (scaled("output.LayerNorm", w, c),))
    return MobileLayer(
        "layer",
        projected("bottleneck.input", h, bottleneck, c) if bottleneck is not None else None,
        projected("bottleneck.attention", h, bottleneck, c) if bottleneck is not None and shared else None,
        mobilebert_attention(c),
        scaled("attention.output.LayerNorm", w, c),
        Stack("ffn", (one,) * further, c.size("num_feedforward_networks") - 1) if further > 0 else None,
        mobilebert_ffn("(ffn)", c),
        scaled("output.LayerNorm", w, c),
        projected("output.bottleneck", w, h, c) if narrow else None,
        of_narrow=c.flag("use_bottleneck_attention"),
        dropped=kit.drops(c),
    )


def inner_width(c: Config) -> str:
    """The field that is the width within a layer: ``true_hidden_size`` where the config states it."""
    if c.get("true_hidden_size") is not None:
        return "true_hidden_size"
    return "intra_bottleneck_size" if c.flag("use_bottleneck") else "hidden_size"


def mobilebert_attention(c: Config) -> NarrowAttention:
    """Queries and keys of the narrow vectors; values of the stream itself, unless ``use_bottleneck_attention``."""
    field = inner_width(c)
    w, a, d = c.size(field), c.size("num_attention_heads"), c.quotient(field, "num_attention_heads")
    seen = w if c.flag("use_bottleneck_attention") else c.size("hidden_size")
    widths, drops = {"Q": w, "K": w, "V": seen}, bool(c.get("attention_probs_dropout_prob"))
    maps = (Linear(name, widths[letter], a * d, letter, True) for name, letter in zip(NAMES, "QKV", strict=False))
    back = Linear(NAMES[-1], a * d, w, "O", True)
    return NarrowAttention(
        "attention", a, a, d, d, tuple(maps), (), back, causal=False, eager=OWN_SOFTMAX, dropout=drops
    )


def mobilebert_ffn(name: str, c: Config) -> FeedForward:
    """One of the feed-forward networks."""
    w, f = c.size(inner_width(c)), c.size("intermediate_size")
    up, down = Linear(FFN[0], w, f, "1", True), Linear(FFN[1], f, w, "2", True)
    return FeedForward(name, up, down, c.word("hidden_act"))


def projected(name: str, fan_in: Num, fan_out: Num, c: Config) -> Narrowed:
    """A map to another width, and its norm."""
    return Narrowed(name, Linear(f"{name}.dense", fan_in, fan_out, "", True), scaled(f"{name}.LayerNorm", fan_out, c))


def scaled(name: str, width: Num, c: Config) -> Norm:
    """A norm, or only its scale and shift (``no_norm``)."""
    return Norm(name, NORM_KINDS[c.word("normalization_type", tuple(NORM_KINDS))], width)


@family("squeezebert", architecture="SqueezeBertForMaskedLM", heads=tops.BERT_TOPS)
def squeezebert(c: Config) -> Module:
    """Iandola et al. 2020 (arXiv 2006.11316): maps in groups of channels; all classes have the pooler."""
    c.size("embedding_size")  # a size, though nothing else reads it
    if c.number("embedding_size") != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} must be hidden_size", "give the hidden size")
    names = ("attention.query", "attention.key", "attention.value", "post_attention.conv1d")
    mixer = kit.attention(c, name="(attention)", names=names, causal=False)
    q, k, v, o = (grouped_by(c, f"{part}_groups", "hidden_size") for part in ("q", "k", "v", "post_attention"))
    maps = (grouped(each, groups) for each, groups in zip(mixer.inward, (q, k, v), strict=True))
    mixer = mixer.but(inward=tuple(maps), output=grouped(mixer.output, o))
    ffn = kit.network(c, names=("intermediate.conv1d", "output.conv1d"))
    inward, outward = (grouped_by(c, f"{part}_groups", *WIDTHS) for part in ("intermediate", "output"))
    ffn = ffn.but(up=grouped(ffn.up, inward), down=grouped(ffn.down, outward))
    norms = ("post_attention.layernorm", "", "output.layernorm")
    layers = kit.stack(c, mixer, norms=norms, ffn=ffn, name="layers")
    tables = (kit.positions(c), kit.token_types(c, indices=TOKENS))
    words, pooler = kit.embeddings(c, *tables), kit.pooler(c, tuple(tops.BERT_TOPS))
    return Encoder("transformer", words, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in kit.PAIRED)


def grouped(map: Linear, groups: Num) -> GroupedMap:
    """The same in groups of channels."""
    return GroupedMap(map.name, map.fan_in, map.fan_out, map.letter, map.bias, groups=groups)


def grouped_by(c: Config, name: str, *widths: str) -> Num:
    """A number of groups of channels, that must divide these widths."""
    for width in widths:
        c.quotient(width, name)
    return c.size(name)
