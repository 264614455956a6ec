"""Encoders like BERT: embeddings, layers, and heads that are modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, CrossAttention
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm, parameter
from tfcalc.nn.embeddings import BUFFER, PLACES, Embeddings, Positions, Segments
from tfcalc.nn.encoder import Encoder, Layers
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import FIRST, POOLED, TOKENS, Classifier, PreTraining, Transform, WithTransform
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, filled, quotient, scaled
from tfcalc.ops.grouped import grouped_product, pointwise_convolution
from tfcalc.ops.shapes import cat, copied
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks import layers
from tfcalc.zoo.blocks.layers import multi_head


class Tabular(Embeddings):
    """Embeddings with ``kinds`` type ids for each token, as tables have columns, rows and ranks (TAPAS)."""

    kinds: int = 1

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the tables' vectors, with several types of each token."""
        known = x.trace.new((*x.shape, self.kinds), "int64", "token types")
        return super().sum_embeddings(x, ctx._replace(places=known))


class Spelled(Embeddings):
    """Embeddings with vectors of how a character looks and sounds put ``beside`` its own, and mapped (RoCBert).

    Where nothing maps them (``together`` is None) they are added, if they are given; token ids alone are what runs
    here, and the sum of the others is copied.
    """

    beside: tuple[Embedding, ...] = ()
    read: tuple[str, ...] = ()
    together: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the embeddings of token ids."""
        return super().forward(x, ctx) if self.together is not None else copied(super().forward(x, ctx))

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the tables' vectors, after a map of how characters look and sound."""
        if self.together is None:
            return super().sum_embeddings(x, ctx)
        made = copied(self.tables[0](x, ctx))
        for table in self.beside:
            if table.name in self.read:
                made = cat([made, table(x.trace.new(x.shape, "int64", "zeros"))])
        made = self.together(made)
        for other in self.tables[1:]:
            made = add(made, other(x, ctx))
        return made


class Residues(Embeddings):
    """Embeddings with masked words set to 0, and the others scaled up for it (``masks_words``; ESM)."""

    masks_words: bool = False

    def sum_embeddings(self, x: Tensor, ctx: Context) -> Tensor:
        """Add up the tables' vectors, masked words set to 0."""
        made = self.tables[0](x, ctx)
        if self.masks_words:
            kind, new = made.dtype, x.trace.new
            made = scaled(filled(made, new((*x.shape, 1), "bool", "masked")))
            made = x.trace.to(quotient(made, new((x.shape[0], 1, 1), "float32", "not masked")), kind)
        for table in self.tables[1:]:
            made = add(made, table(x, ctx))
        return made


class Numbered(Embeddings):
    """Embeddings with stored position ids (MRA)."""

    numbers: Buffer | None = None


class GroupedMap(Linear):
    """A map of every token in ``groups`` groups: a convolution over one token.

    Source: Iandola et al. 2020 (SqueezeBERT, arXiv 2006.11316), section 3.2.
    """

    kind: str = "convolution"
    groups: Num = 1

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.fan_out, divide(self.fan_in, self.groups), 1))
        bias = [Weight("b", (self.fan_out,), minor=True, key="bias")] if self.bias else []
        return Cost(weights=(weight, *bias))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the grouped convolution of each token."""
        weight, *biases = self.weights(x.trace)
        return pointwise_convolution(x, weight, biases[0] if biases else None, self.groups)


class GroupedLinear(GroupedMap):
    """A map of every token in groups, as a matrix product for each group (ConvBERT's GroupedLinearLayer)."""

    def own_params(self) -> Cost:
        """W and b."""
        g = self.groups
        weight = Weight("w", (g, divide(self.fan_in, g), divide(self.fan_out, g)))
        return Cost(weights=(weight, Weight("b", (self.fan_out,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the grouped product of each token."""
        weight, bias = self.weights(x.trace)
        return grouped_product(x, weight, bias)


NAMES = ("self.query", "self.key", "self.value", "output.dense")
FFN = ("intermediate.dense", "output.dense")
POST_NORM = ("attention.output.LayerNorm", "crossattention.output.LayerNorm", "output.LayerNorm")
PAIRED = ("Model", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification", "ForMultipleChoice")
"""The classes that read the pooled first token, in BERT; the others are made without a pooler."""
FIRST_TOKEN = ("Model", "ForMultipleChoice")
"""Those that do so in RoBERTa, whose classifier has a map of its own."""
READERS = ("Model", "Encoder", "Decoder", "ForCausalLM", "LMHeadModel", "ForMaskedLM")
"""The classes that take another model's output (``encoder_hidden_states``)."""


def norm(c: Config, name: str, width: Num | None = None, form: str = "layernorm") -> Norm:
    """A LayerNorm, of the hidden size if no other ``width`` is given."""
    return Norm(name, form, c.size("hidden_size") if width is None else width)


def drops(c: Config) -> bool:
    """Return whether dropout is applied to embeddings and to the output of sub-layers."""
    return bool(c.get("hidden_dropout_prob"))


def positions(c: Config, *, width: Num | None = None, indices: str = BUFFER) -> Positions:
    """A trained vector for each position."""
    e = c.size("hidden_size") if width is None else width
    return Positions("position_embeddings", c.size("max_position_embeddings"), e, indices)


def token_types(c: Config, *, width: Num | None = None, indices: str = PLACES) -> Segments:
    """A vector for each segment: the first sentence, the second."""
    e = c.size("hidden_size") if width is None else width
    return Segments("token_type_embeddings", c.size("type_vocab_size", least=0), e, indices)


def embeddings(c: Config, *tables: Module, width: Num | None = None, normed: str = "LayerNorm") -> Embeddings:
    """The words' vectors, what is added to them, and a norm (none where ``normed`` is empty)."""
    e = c.size("hidden_size") if width is None else width
    words = Embedding("word_embeddings", c.size("vocab_size"), e)
    return Embeddings("embeddings", (words, *tables), norm(c, normed, e) if normed else None, drops(c))


def attention(
    c: Config,
    *,
    name: str = "attention",
    names: Sequence[str] = NAMES,
    bias: bool = True,
    of: type[Attention] = Attention,
    **more: Any,
) -> Attention:
    """Heads that split the hidden size, which see everything, unless the config says that it is a decoder."""
    h, a, d = c.size("hidden_size"), c.size("num_attention_heads"), c.quotient("hidden_size", "num_attention_heads")
    own: dict[str, Any] = {"eager": OWN_SOFTMAX, "dropout": bool(c.get("attention_probs_dropout_prob"))}
    if of is Attention:
        own["causal"] = c.flag("is_decoder")
    return multi_head(of, name, names, h, a, d, bias=bias, output_bias=True, **own | more)


def cross_attention(
    c: Config, *, names: Sequence[str] = NAMES, bias: bool = True, readers: Sequence[str] = READERS, **more: Any
) -> CrossAttention | None:
    """Attention to another model's output (``add_cross_attention``). InvalidModel in an encoder, as in transformers.

    Classes that are no ``readers`` have it, but take no such output: there it never runs.
    """
    if not c.flag("add_cross_attention"):
        return None
    if not c.flag("is_decoder"):
        raise InvalidModel(f"{c.path('add_cross_attention')} is true, but is_decoder is not", "set is_decoder to true")
    reads = c.head in readers
    made = attention(c, name="crossattention", names=names, bias=bias, of=CrossAttention, reads=reads, **more)
    assert isinstance(made, CrossAttention)
    return made


def network(c: Config, *, name: str = "(ffn)", names: Sequence[str] = FFN) -> FeedForward:
    """Two maps, that the checkpoint keeps apart."""
    return layers.network(name, names, c.size("hidden_size"), c.size("intermediate_size"), c.word("hidden_act"))


def stack(
    c: Config,
    mixer: Module,
    *,
    norms: Sequence[str] = POST_NORM,
    ffn: Module | None = None,
    cross: Module | None = None,
    of: type[PreNorm] = PostNorm,
    name: str = "layer",
    undropped: Sequence[str] = (),
) -> Stack:
    """Equal layers: mixer, cross-attention where there is any, feed-forward, and the norms that go with them."""
    sublayers = (mixer, *((cross,) if cross else ()), ffn or network(c))
    named = [norms[0], *([norms[1]] if cross else []), norms[2]]
    made = tuple(norm(c, one) for one in named)
    layer = of(name, sublayers, made, drops(c), undropped=tuple(undropped))
    return layers.stack(c, layer)


def pooler(c: Config, classes: Sequence[str], name: str = "pooler.dense") -> Linear | None:
    """A map of the first token's vector, in these classes."""
    h = c.size("hidden_size")
    return Linear(name, h, h, "", True) if c.head in classes else None


def bert_like(
    name: str,
    c: Config,
    *tables: Module,
    pooled: Sequence[str] = PAIRED,
    mixer: Attention | None = None,
    norms: Sequence[str] = POST_NORM,
    normed: str = "LayerNorm",
    final: str = "",
    bias: bool = True,
    cross: bool = True,
    undropped: Sequence[str] = (),
    **more: Any,
) -> Encoder:
    """BERT by its ``tables`` beside the words, its ``norms`` of layers and after the last, and who has a pooler."""
    memory = cross_attention(c, bias=bias, **more) if cross else None
    mixer = mixer or attention(c, bias=bias, **more)
    of = PostNorm if norms is POST_NORM else PreNorm
    made = stack(c, mixer, norms=norms, cross=memory, of=of, undropped=undropped)
    return Encoder(
        name,
        embeddings(c, *tables, normed=normed),
        (),
        Layers("encoder", (), made, norm(c, final) if final else None),
        pooler=pooler(c, pooled),
        pools=c.head in PAIRED,
    )


def with_tables(c: Config, indices: str = "") -> tuple[Positions, Segments]:
    """BERT's own tables: positions and token types; RoBERTa makes numbers for each token."""
    return positions(c, indices=indices or BUFFER), token_types(c, indices=indices or PLACES)


Make = Callable[[Config], Predictions]

TRANSFORM = ("transform.dense", "transform.LayerNorm", "decoder")
MASKED: dict[str, Any] = {"shifted": False, "upcasts": False}
"""Of a loss that asks for the tokens themselves."""


def predictions(
    name: str, names: Sequence[str] = TRANSFORM, *, width: str = "hidden_size", act: str = "", alone: bool = False
) -> Make:
    """A map, an activation and a norm (unless logits are ``alone``), then logits by the words' own vectors."""
    return lambda c: predicted(name, c, c.size(width), names, act, alone=alone)


def predicted(
    name: str, c: Config, width: Num, names: Sequence[str] = TRANSFORM, act: str = "", *, alone: bool = False
) -> Predictions:
    """A map, an activation and a norm (unless logits are ``alone``), then logits by words' vectors of any ``width``.

    The bias is stored beside the ``decoder``: it is the decoder's own too where its matrix is tied, but not where it is
    untied. That is how transformers builds it.
    """
    h, vocabulary, tied = c.size("hidden_size"), c.size("vocab_size"), c.flag("tie_word_embeddings")
    dense = None if alone else Linear(names[0], h, width, "", True)
    normed = None if alone else Norm(names[1], "layernorm", width)
    table, bias = ("embedding", "bias") if tied else (None, None)
    decoder = Linear(names[2], width, vocabulary, "vocab", True, table, "output", bias)
    beside = parameter("bias", vocabulary, minor=True)
    kind = "" if alone else act or c.word("hidden_act")
    return Predictions(name, dense, normed, decoder, beside, kind)


def masked(make: Make) -> Top:
    """A model that predicts the tokens that it reads, some of which are masked."""
    return lambda c, base: ModelWithHead("", base, make(c), **MASKED)


def masked_upcast(make: Make) -> Top:
    """A model that predicts masked tokens, with a loss of logits in fp32 (transformers' ``loss_function``)."""
    return lambda c, base: ModelWithHead("", base, make(c), shifted=False)


def causal(make: Make) -> Top:
    """A model that predicts the next tokens."""
    return lambda c, base: ModelWithHead("", base, make(c))


def lm(make: Make) -> dict[str, Top]:
    """The classes that predict words."""
    return {"ForMaskedLM": masked(make), "ForCausalLM": causal(make), "LMHeadModel": causal(make)}


def apart(names: Sequence[str], *, width: str = "hidden_size", act: str = "") -> dict[str, Top]:
    """The classes that predict words, with map, norm and logits side by side in the model, and one bias."""

    def top(c: Config, base: Module, **loss: Any) -> WithTransform:
        e, tied = c.size(width), "embedding" if c.flag("tie_word_embeddings") else None
        return WithTransform(
            "",
            base,
            Linear(names[2], e, c.size("vocab_size"), "vocab", True, tied, "output"),
            transform=Transform(
                "",
                Linear(names[0], c.size("hidden_size"), e, "", True),
                Norm(names[1], "layernorm", e),
                act or c.word("hidden_act"),
            ),
            **loss,
        )

    return {"ForMaskedLM": lambda c, base: top(c, base, **MASKED), "ForCausalLM": top, "LMHeadModel": top}


def classes(name: str, count: int | None = None, *, reads: str = TOKENS, dropped: str = "hidden_dropout_prob") -> Top:
    """``count`` logits (else ``num_labels``), of every token, or of what it ``reads``."""
    return dense_classes((name,), count, reads=reads, dropped=dropped)


def dense_classes(
    names: Sequence[str] = ("classifier.dense", "classifier.out_proj"),
    count: int | None = None,
    *,
    reads: str = FIRST,
    dropped: str = "hidden_dropout_prob",
    undropped: tuple[str, ...] = (),
    act: str = "tanh",
) -> Top:
    """Maps of the first token's vector, or of what it ``reads``, the last of which makes logits.

    What they read is dropped as the field ``dropped`` says. An activation that is not named is the config's.
    """

    def top(c: Config, base: Module) -> Module:
        *before, last = names
        h, drops, kind = c.size("hidden_size"), bool(dropped and c.get(dropped)), act or c.word("hidden_act")
        maps = (*(Linear(one, h, h, "", True) for one in before), Linear(last, h, count or labels(c), "", True))
        return Classifier("", base, None, maps, reads, kind, drops, undropped)

    return top


def pretraining(make: Make, name: str, count: int | None = 2) -> Top:
    """A model that predicts masked tokens, and two classes of the pooled first one, or as many as there are labels."""

    def top(c: Config, base: Module) -> Module:
        beside = Linear(name, c.size("hidden_size"), count or labels(c), "", True)
        return PreTraining("", base, make(c), beside=beside, **MASKED)

    return top


TASKS: dict[str, Top] = {
    "Model": bare,
    "ForSequenceClassification": classes("classifier", reads=POOLED),
    "ForMultipleChoice": classes("classifier", 1, reads=POOLED),
    "ForTokenClassification": classes("classifier"),
    "ForQuestionAnswering": classes("qa_outputs", dropped=""),
}
ANSWER = classes("qa_outputs", 2, dropped="")
"""Where the answer begins and ends, in those that do not ask for ``num_labels``."""
PREDICTIONS = predictions("cls.predictions")
BERT_TOPS: dict[str, Top] = {
    **TASKS,
    **lm(PREDICTIONS),
    "ForPreTraining": pretraining(PREDICTIONS, "cls.seq_relationship"),
    "ForNextSentencePrediction": classes("cls.seq_relationship", 2, reads=POOLED, dropped=""),
}
LM_HEAD = predictions("lm_head", ("dense", "layer_norm", "decoder"), act="gelu")
ROBERTA_TOPS: dict[str, Top] = {**TASKS, **lm(LM_HEAD), "ForSequenceClassification": dense_classes()}
