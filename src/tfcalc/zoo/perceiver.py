"""Perceiver: a few latent vectors read a long input, and are read by the queries of the output."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.component import Cost, Weight
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm, Parameter, parameter
from tfcalc.nn.embeddings import Positions
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.model import ModelWithHead, Predictions
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack, turns_to_run
from tfcalc.ops.convolution import map_of_pixels
from tfcalc.ops.elementwise import add, residual
from tfcalc.ops.shapes import cat, expand
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences
from tfcalc.zoo.blocks import encoders
from tfcalc.zoo.blocks.layers import multi_head, network


class PerceiverLayer(Module):
    """Attention, to the context's ``memory`` where that has a norm of its own (``other``), and a network.

    It runs ``times`` times with the same weights.
    """

    kind = "layer"

    norm: Norm
    other: Norm | None
    attention: Attention
    last: Norm
    network: FeedForward
    times: Num = 1

    @property
    def passes(self) -> Num:
        """Number of times that it runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the layer's output for queries."""
        normed = self.norm(x, ctx)
        if self.other is not None and ctx.memory is not None:
            ctx = ctx._replace(memory=ctx.memory._replace(vectors=self.other(ctx.memory.vectors, ctx)))
        x = residual(x, self.attention(normed, ctx), self.attention.name)
        return residual(x, self.network(self.last(x, ctx), ctx), self.network.name)


class RepeatedStack(Stack):
    """Layers that run one upon another, and again from the first, ``times`` times."""

    times: Num = 1

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Run turn by turn, where it matters what is live when; else one turn for all."""
        for _ in turns_to_run(x.trace, self.times):
            x = super().__call__(x, ctx)
        return x


class LatentEncoder(Module):
    """Latent vectors read the input, and then each other."""

    kind = "encoder"

    reads: PerceiverLayer
    thinks: RepeatedStack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the latent vectors after they have read the input and each other."""
        return self.thinks(self.reads(x, ctx), ctx._replace(memory=None))


class LatentDecoder(Module):
    """Trained queries of the output that read the latent vectors, and a last map, where there is one."""

    kind = "decoder"

    query: Parameter
    reads: PerceiverLayer
    final: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for latent vectors."""
        batch, (places, width) = x.shape[0], self.query.tensor.shape
        query = expand(self.query.weight(x.trace), batch, places, width)
        made = self.reads(query, ctx.asking(Sequences(batch, places), x, ctx.stream))
        return made if self.final is None else self.final(made)


class ColourMap(Module):
    """A map of each pixel's colours."""

    kind = "convolution"

    colours: Num
    width: Num

    def own_params(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, self.colours, 1, 1))
        return Cost(weights=(weight, Weight("b", (self.width,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Return the mapped pixels, for ``x`` of b × pixels × colours."""
        weight, bias = self.weights(x.trace)
        return map_of_pixels(x, weight, bias)


class Perceiver(Module):
    """Input embedding, latent vectors, the encoder in which they read the input, and a decoder with output queries.

    The input are words (``tables``), the pixels of an image (``pixels``) with a map of their ``places``, or vectors
    that something else has made.
    """

    kind = "encoder"

    tables: tuple[Module, ...]
    pixels: tuple[ColourMap, Parameter, Linear] | None
    latents: Parameter
    encoder: LatentEncoder
    decoder: LatentDecoder | None
    width: Num
    side: Num | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """Parts, in the order in which they run."""
        parts = (*self.tables, *(self.pixels or ()), self.latents, self.encoder, self.decoder)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the output for token ids, in whose place there may be an image or vectors."""
        read, batch = self._read(x, ctx), x.shape[0]
        count, width = self.latents.tensor.shape
        made = expand(self.latents.weight(x.trace), batch, count, width)
        seen = ctx.stream if self.pixels is None else Sequences(batch, read.shape[1])
        ctx = ctx.asking(Sequences(batch, count), read, seen)
        made = self.encoder(made, ctx)
        return made if self.decoder is None else self.decoder(made, ctx._replace(memory=None))

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        trace, batch = x.trace, x.shape[0]
        if self.pixels is not None and self.side is not None:
            colours, places, projection = self.pixels
            number = self.side * self.side
            made = colours(trace.given((batch, number, colours.colours), trace.weights_format, "pixels"))
            where = projection(expand(places.weight(trace), batch, *places.tensor.shape))
            return cat([made, where])
        if not self.tables:
            return trace.given((*x.shape, self.width), trace.weights_format, "vectors")
        made = self.tables[0](x, ctx)
        for table in self.tables[1:]:
            made = add(made, table(x, ctx))
        return made


class WithoutMore(Module):
    """A model that already makes what is asked of it."""

    kind = "model"

    base: Perceiver

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the model's output for token ids."""
        return self.base(x, ctx)


class WithPlaces(ModelWithHead):
    """A model that predicts a word for each place that there is, whichever are asked for."""

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """The loss, or the logits."""
        return super().read(made, x, ctx._replace(run=ctx.run.replaced(logits="all")))


IMAGE_CHANNELS = 256
PIXEL_CHANNELS = 3
READ_HEADS = 8
READ_CHANNELS = 8 * 32
"""What transformers writes into its classes: of an image's vectors, and of the queries that read words."""
Width = str | int
SHAPE = "cross_attention_shape_for_attention"
NAMES = ("self.query", "self.key", "self.value", "output.dense")


def words(c: Config, base: Module) -> Module:
    """Logits by the words' own vectors, by a query for each position there is."""
    assert isinstance(base, Perceiver)
    tied = Linear("decoder", c.size("d_model"), c.size("vocab_size"), "", False, "embedding", "output")
    bias = parameter("bias", c.size("vocab_size"), minor=True)
    return WithPlaces("", base, Predictions("embedding_decoder", None, None, tied, bias), shifted=False, upcasts=False)


def no_more(c: Config, base: Module) -> Module:
    """Return the model as it is: its decoder already makes the output."""
    assert isinstance(base, Perceiver)
    return WithoutMore("", base)


TOPS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": words,
    "ForSequenceClassification": no_more,
    "ForImageClassificationLearned": no_more,
}


@family("perceiver", heads=TOPS)
def perceiver(c: Config) -> Module:
    """Jaegle et al. 2021 (arXiv 2107.14795): the block of self-attention is run ``num_blocks`` times."""
    image, count = c.head == "ForImageClassificationLearned", c.number("num_self_attends_per_block")
    seen: Width = 2 * IMAGE_CHANNELS if image else "d_model"
    thinks = perceiver_layer(THINKS, c, width="d_latents").replace(times=c.size("num_blocks"))
    turns = RepeatedStack(
        thinks.name, (thinks,) * count, c.size("num_self_attends_per_block"), times=c.size("num_blocks")
    )
    return Perceiver(
        "perceiver",
        () if image or c.head == "Model" else text_input(c),
        image_input(c) if image else None,
        parameter("embeddings.latents", c.size("num_latents"), c.size("d_latents")),
        LatentEncoder("encoder", perceiver_layer(READS, c, width="d_latents", seen=seen), turns),
        decoder(c),
        value(c, seen),
        c.size("image_size") if image else None,
    )


def text_input(c: Config) -> tuple[Module, ...]:
    """Vectors of bytes and of their positions."""
    width, places = c.size("d_model"), c.size("max_position_embeddings")
    return (
        Embedding("input_preprocessor.embeddings", c.size("vocab_size"), width),
        Positions("input_preprocessor.position_embeddings", places, width),
    )


def image_input(c: Config) -> tuple[ColourMap, Parameter, Linear]:
    """A map of each pixel, and beside it one of its position."""
    e, side, name = IMAGE_CHANNELS, c.size("image_size"), "input_preprocessor"
    return (
        ColourMap(f"{name}.convnet_1x1", PIXEL_CHANNELS, e),
        parameter(f"{name}.position_embeddings.position_embeddings", side * side, e),
        Linear(f"{name}.positions_projection", e, e, "", True),
    )


def decoder(c: Config) -> LatentDecoder | None:
    """Trained queries of the output, that read the latent vectors."""
    query = "output_position_encodings.position_embeddings"
    if c.head == "ForMaskedLM":
        places, width = c.size("max_position_embeddings"), c.size("d_model")
        read = perceiver_layer(WRITES_WORDS, c, width="d_model", seen="d_latents")
        return LatentDecoder("decoder", parameter(query, places, width), read)
    if c.head == "Model":
        return None
    width = c.size("d_latents")
    read = perceiver_layer(WRITES_CLASS, c, width="d_latents", seen="d_latents")
    final = Linear("final_layer", width, labels(c), "", True)
    return LatentDecoder("decoder.decoder", parameter(query, 1, width), read, final)


class Kind(NamedTuple):
    """A layer's name and its numbers, each a field's name or the number itself."""

    name: str
    heads: Width
    widening: Width
    qk: Width | None
    v: Width | None


READS = Kind(
    "cross_attention", "num_cross_attention_heads", "cross_attention_widening_factor", "qk_channels", "v_channels"
)
THINKS = Kind("self_attends", "num_self_attention_heads", "self_attention_widening_factor", "qk_channels", "v_channels")
WRITES_WORDS = Kind("decoding_cross_attention", READ_HEADS, 1, READ_CHANNELS, "d_model")
WRITES_CLASS = Kind("decoding_cross_attention", 1, 1, None, None)


def perceiver_layer(kind: Kind, c: Config, *, width: Width, seen: Width | None = None) -> PerceiverLayer:
    """Attention, to vectors that are ``seen`` wide if they are others', and a feed-forward network."""
    w, other = value(c, width), value(c, width if seen is None else seen)
    shape = width if seen is None or c.word(SHAPE, ("q", "kv")) == "q" else seen
    qk = given(c, kind.qk, shape)
    v = given(c, kind.v, qk)
    a, d_k, d_v = value(c, kind.heads), per_head(c, qk, kind.heads), per_head(c, v, kind.heads)
    of, to = (Attention, value(c, v)) if seen is None else (CrossAttention, w)
    drops = bool(c.get("attention_probs_dropout_prob"))
    mixer = multi_head(of, "attention", NAMES, w, a, d_k, value_width=d_v, source=other, out=to, bias=True)
    mixer = mixer.replace(causal=False, eager=OWN_SOFTMAX, dropout=drops)
    ffn = network("mlp", ("dense1", "dense2"), w, value(c, kind.widening) * w, c.word("hidden_act"))
    before = encoders.norm(c, "attention.self.layernorm2", other) if seen is not None else None
    first, last = encoders.norm(c, "attention.self.layernorm1", w), encoders.norm(c, "layernorm", w)
    return PerceiverLayer(kind.name, first, before, mixer, last, ffn)


def given(c: Config, width: Width | None, otherwise: Width) -> Width:
    """The width, unless it is a field that a config leaves out."""
    return otherwise if width is None or (isinstance(width, str) and c.get(width) is None) else width


def value(c: Config, width: Width) -> Num:
    """A field's, or the number itself."""
    return c.size(width) if isinstance(width, str) else width


def per_head(c: Config, width: Width, heads: Width) -> Num:
    """The width of a head. Raises InvalidModel where it does not come out even."""
    number, among = (c.number(one) if isinstance(one, str) else one for one in (width, heads))
    if number % among:
        raise InvalidModel(f"{width} {number} is not divisible by {heads} {among}", f"give a multiple of {among}")
    result: Num = divide(value(c, width), value(c, heads))
    return result
