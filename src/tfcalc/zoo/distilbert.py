"""BERTs made small: DistilBERT, MobileBERT, SqueezeBERT."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import TOKENS, Embeddings
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout, residual
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import cat, narrow, pad, reshape, transpose
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.encoders import FFN, NAMES, GroupedMap
from tfcalc.zoo.blocks.layers import multi_head, network, stack


class Trigrams(Embeddings):
    """Narrow vectors of words, ``widened``; with ``neighbours`` those of both are put beside each first."""

    widened: Linear | None = None
    neighbours: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """The map behind the words' table."""
        words, *others = self.tables
        return (part for part in (words, self.widened, *others, self.norm) if part is not None)

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the tables' vectors, after neighbours are put together and widened."""
        words, *others = self.tables
        made = words(x, ctx)
        if self.neighbours:
            length = x.shape[1]
            one = pad(narrow(made, length - 1), 1, length)
            made = cat([one, made, pad(narrow(made, length - 1), 1, length)])
        made = made if self.widened is None else self.widened(made)
        for table in others:
            made = add(made, table(x, ctx))
        return made


class Narrowed(Module):
    """A map to another width, and its norm."""

    kind = "bottleneck"

    dense: Linear
    norm: Norm

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Map ``x`` and normalise it; it is no module of its own."""
        return self.norm(self.dense(x), ctx)


class NarrowAttention(Attention):
    """Queries and keys of one tensor, values of another."""

    def of(self, x: Tensor, values: Tensor, ctx: Context) -> Tensor:
        """Return the attention output, with queries and keys of ``x`` and values of ``values``."""
        with x.trace.inside(self):
            given = [each(read) for each, read in zip(self.inward, (x, x, values), strict=True)]
            shape = (*x.shape[:2], self.heads, self.key_dim)
            return self.output(self.mixed([transpose(reshape(each, *shape), 1, 2) for each in given], ctx))


class MobileLayer(Module):
    """Down into the bottleneck, attention, feed-forward networks, and up again.

    Where there is no bottleneck (``down``) the layer is as wide as the stream. Queries and keys may be made of a
    bottleneck of their own (``shared``), and values of the stream itself, unless all are made of one (``of_narrow``).

    Source: Sun et al. 2020 (MobileBERT, arXiv 2004.02984), section 3.
    """

    kind = "layer"

    down: Narrowed | None
    shared: Narrowed | None
    attention: NarrowAttention
    attention_norm: Norm
    networks: Stack | None
    network: FeedForward
    network_norm: Norm
    up: Narrowed | None
    of_narrow: bool = False
    dropped: bool = False

    @property
    def parts(self) -> Iterator[Module]:
        """Modules in the order in which they run."""
        for each in self.__dict__.values():
            if isinstance(each, Narrowed):
                yield from (each.dense, each.norm)
            elif isinstance(each, Module):
                yield each

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Run the sub-layers one after another."""
        inner = x if self.down is None else self.down(x, ctx)
        asking = values = inner
        if self.down is not None and not self.of_narrow:
            asking, values = x if self.shared is None else self.shared(x, ctx), x
        made = self._dropped(self.attention.of(asking, values, ctx), ctx)
        made = self.attention_norm(residual(inner, made, self.attention.name), ctx)
        if self.networks is not None:
            once = ctx._replace(run=ctx.run.replaced(recompute="none"))
            made = self.networks(made, once)
        last = self._dropped(self.network(made, ctx), ctx)
        last = self.network_norm(residual(made, last, self.network.name), ctx)
        if self.up is None:
            return last
        last = self.up.dense(last)
        last = dropout(last, "up_dropout") if self.dropped and ctx.drops else last
        return self.up.norm(residual(x, last, "up"), ctx)

    def _dropped(self, x: Tensor, ctx: Context) -> Tensor:
        """Apply dropout, only where there is no bottleneck."""
        return dropout(x, "dropout") if self.dropped and self.up is None and ctx.drops else x


class WiderPredictions(Predictions):
    """Logits by the words' vectors, which are narrower than the stream, and for the ``rest`` by a matrix of its own.

    A program puts both matrices together first, each time.
    """

    rest: Linear | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The rest before the words' vectors."""
        parts = (self.dense, self.norm, self.rest, self.decoder, self.bias)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the logits of each token."""
        x, trace = self.transformed(x, ctx), x.trace
        if self.rest is None:
            return self.decoder(x)
        if not trace.emits_kernels:  # two products; a program puts both matrices side by side first
            self.rest(narrow(x, self.rest.fan_in, axis=2))
            return self.decoder(narrow(x, self.decoder.fan_in, axis=2))
        with trace.inside(self.decoder):
            words, bias = self.decoder.weights(trace)
        with trace.inside(self.rest):
            (rest,) = self.rest.weights(trace)
        return add(linear(x, trace.lower(cat([words, rest], axis=0))), bias)


PRE_CLASSIFIER = ("pre_classifier", "classifier")
DISTILBERT_TOPS: dict[str, Top] = {
    **encoders.TASKS,
    **encoders.apart(("vocab_transform", "vocab_layer_norm", "vocab_projector")),
    "ForSequenceClassification": encoders.dense_classes(
        PRE_CLASSIFIER, dropped="seq_classif_dropout", undropped=PRE_CLASSIFIER[:1], act="relu"
    ),
    "ForMultipleChoice": encoders.dense_classes(
        PRE_CLASSIFIER, 1, dropped="seq_classif_dropout", undropped=PRE_CLASSIFIER[:1], act="relu"
    ),
    "ForTokenClassification": encoders.classes("classifier", dropped="dropout"),
    "ForQuestionAnswering": encoders.classes("qa_outputs", dropped="qa_dropout"),
}


@family("distilbert", heads=DISTILBERT_TOPS, aliases={"hidden_dim": "intermediate_size", "activation": "hidden_act"})
def distilbert(c: Config) -> Module:
    """Sanh et al. 2019 (arXiv 1910.01108): BERT without token types and without a pooler."""
    names, drops = ("q_lin", "k_lin", "v_lin", "out_lin"), bool(c.get("dropout"))
    mixer = encoders.attention(c, names=names, causal=False, dropout=bool(c.get("attention_dropout")))
    ffn = encoders.network(c, name="ffn", names=("lin1", "lin2"))
    norms = encoders.norm(c, "sa_layer_norm"), encoders.norm(c, "output_layer_norm")
    layer = PostNorm("layer", (mixer, ffn), norms, drops, undropped=("attention",))
    words = encoders.embeddings(c, encoders.positions(c)).replace(dropped=drops)
    return Encoder("distilbert", words, (), Layers("transformer", (), stack(c, layer)))


def mobilebert_predictions(c: Config) -> Predictions:
    """Logits by the words' vectors, which are narrower than the stream, and for the rest by columns of their own."""
    h, e, vocabulary = c.size("hidden_size"), c.size("embedding_size"), c.size("vocab_size")
    if c.number("embedding_size") > c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} is larger than hidden_size", "give at most the hidden size")
    made = encoders.predicted("cls.predictions", c, h)
    rest = Linear("dense", h - e, vocabulary)
    return made.as_type(WiderPredictions, decoder=made.decoder.replace(fan_in=e), rest=rest)


MOBILEBERT_TOPS: dict[str, Top] = {
    **encoders.BERT_TOPS,
    **encoders.lm(mobilebert_predictions),
    "ForPreTraining": encoders.pretraining(mobilebert_predictions, "cls.seq_relationship"),
}
WIDTHS = ("hidden_size", "intermediate_size")
NORM_KINDS = {"layer_norm": "layernorm", "no_norm": "affine"}


@family("mobilebert", architecture="MobileBertForPreTraining", heads=MOBILEBERT_TOPS)
def mobilebert(c: Config) -> Module:
    """Sun et al. 2020 (arXiv 2004.02984): layers narrower than the stream, with several feed-forward networks each."""
    pooler = encoders.pooler(c, encoders.PAIRED) if c.flag("classifier_activation") else None
    layers = Layers("encoder", (), stack(c, mobilebert_layer(c)))
    return Encoder("mobilebert", mobilebert_words(c), (), layers, pooler=pooler, pools=c.head in encoders.PAIRED)


def mobilebert_words(c: Config) -> Module:
    """Narrow vectors of words; with ``trigram_input`` those of both neighbours are put beside each."""
    h, e, trigrams = c.size("hidden_size"), c.size("embedding_size"), c.flag("trigram_input")
    words = Embedding("word_embeddings", c.size("vocab_size"), e)
    tables = (words, encoders.positions(c), encoders.token_types(c, indices=TOKENS))
    widened = Linear("embedding_transformation", 3 * e if trigrams else e, h, "", True)
    norm = scaled("LayerNorm", h, c)
    return Trigrams("embeddings", tables, norm, encoders.drops(c), widened=widened, neighbours=trigrams)


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
        dropped=encoders.drops(c),
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
    how = {"causal": False, "eager": OWN_SOFTMAX, "dropout": bool(c.get("attention_probs_dropout_prob"))}
    made = multi_head(NarrowAttention, "attention", NAMES, w, a, d, bias=True).replace(**how)
    *others, values = made.inward
    return made.replace(inward=(*others, values.replace(fan_in=seen)))


def mobilebert_ffn(name: str, c: Config) -> FeedForward:
    """One of the feed-forward networks."""
    return network(name, FFN, c.size(inner_width(c)), c.size("intermediate_size"), c.word("hidden_act"))


def projected(name: str, fan_in: Num, fan_out: Num, c: Config) -> Narrowed:
    """A map to another width, and its norm."""
    return Narrowed(name, Linear(f"{name}.dense", fan_in, fan_out, "", True), scaled(f"{name}.LayerNorm", fan_out, c))


def scaled(name: str, width: Num, c: Config) -> Norm:
    """A norm, or only its scale and shift (``no_norm``)."""
    return Norm(name, NORM_KINDS[c.word("normalization_type", tuple(NORM_KINDS))], width)


@family("squeezebert", heads=encoders.BERT_TOPS)
def squeezebert(c: Config) -> Module:
    """Iandola et al. 2020 (arXiv 2006.11316): maps in groups of channels; all classes have the pooler."""
    c.size("embedding_size")  # a size, though nothing else reads it
    if c.number("embedding_size") != c.number("hidden_size"):
        raise InvalidModel(f"{c.path('embedding_size')} must be hidden_size", "give the hidden size")
    names = ("attention.query", "attention.key", "attention.value", "post_attention.conv1d")
    mixer = encoders.attention(c, name="(attention)", names=names, causal=False)
    q, k, v, o = (grouped_by(c, f"{part}_groups", "hidden_size") for part in ("q", "k", "v", "post_attention"))
    maps = (grouped(each, groups) for each, groups in zip(mixer.inward, (q, k, v), strict=True))
    mixer = mixer.replace(inward=tuple(maps), output=grouped(mixer.output, o))
    ffn = encoders.network(c, names=("intermediate.conv1d", "output.conv1d"))
    inward, outward = (grouped_by(c, f"{part}_groups", *WIDTHS) for part in ("intermediate", "output"))
    ffn = ffn.replace(up=grouped(ffn.up, inward), down=grouped(ffn.down, outward))
    norms = ("post_attention.layernorm", "", "output.layernorm")
    layers = encoders.stack(c, mixer, norms=norms, ffn=ffn, name="layers")
    tables = (encoders.positions(c), encoders.token_types(c, indices=TOKENS))
    words, pooler = encoders.embeddings(c, *tables), encoders.pooler(c, tuple(encoders.BERT_TOPS))
    return Encoder(
        "transformer", words, (), Layers("encoder", (), layers), pooler=pooler, pools=c.head in encoders.PAIRED
    )


def grouped(map: Linear, groups: Num) -> GroupedMap:
    """Return the map in groups of channels."""
    return GroupedMap(map.name, map.fan_in, map.fan_out, map.letter, map.bias, groups=groups)


def grouped_by(c: Config, name: str, *widths: str) -> Num:
    """A number of groups of channels, that must divide these widths."""
    for width in widths:
        c.quotient(width, name)
    return c.size(name)
