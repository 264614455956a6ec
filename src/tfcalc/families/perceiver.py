"""Perceiver: a few latent vectors read a long input, and are read by the queries of the output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.configs.config import Config
from tfcalc.configs.family import Head, family
from tfcalc.configs.heads import bare, labels
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families.bert_heads import on_top
from tfcalc.leaves import convolution, embedding, learned_position, linear, norm, parameter
from tfcalc.workload import Sequences, Workload

IMAGE_CHANNELS = 256
PIXEL_CHANNELS = 3
READ_HEADS = 8
READ_CHANNELS = 8 * 32
"""What transformers writes into its classes: of an image's vectors, and of the queries that read words."""
Width = str | int
SHAPE = "cross_attention_shape_for_attention"
NAMES = ("self.query", "self.key", "self.value", "output.dense")


def words(c: Config, run: Workload) -> Iterator[Component]:
    """Logits by the words' own vectors."""
    read = run.target.batch * c.size("max_position_embeddings")  # by a query for each position there is
    tied = linear("decoder", c.size("d_model"), c.size("vocab_size"), read, bias=False, tied_to="embedding")
    tied = tied._replace(kind="output")
    parts = (tied, parameter("bias", c.size("vocab_size"), minor=True))
    yield Component("embedding_decoder", "head", parts=parts)


HEADS: dict[str, Head] = {
    "Model": bare,
    "ForMaskedLM": on_top(words),
    "ForSequenceClassification": on_top(),
    "ForImageClassificationLearned": on_top(),
}


@family("perceiver", architecture="PerceiverForMaskedLM", heads=HEADS)
def perceiver(c: Config, run: Workload) -> Component:
    """Jaegle et al. 2021 (arXiv 2107.14795): the block of self-attention is run ``num_blocks`` times."""
    latents = Sequences(run.target.batch, c.size("num_latents"))
    image = c.head == "ForImageClassificationLearned"
    seen, inputs = (2 * IMAGE_CHANNELS, pixels(c, run)) if image else ("d_model", run.target)
    reads = perceiver_layer(READS, c, run, latents, inputs, width="d_latents", seen=seen)
    thinks = perceiver_layer(THINKS, c, run, latents, latents, width="d_latents")
    repeated = thinks._replace(copies=c.size("num_self_attends_per_block"), passes=c.size("num_blocks"))
    return Component(
        "perceiver",
        "encoder",
        parts=(
            *(image_input(c, inputs) if image else text_input(c, run) if c.head != "Model" else ()),
            parameter("embeddings.latents", c.size("num_latents"), c.size("d_latents")),
            Component("encoder", "encoder", parts=(reads, repeated)),
            *decoder(c, run, latents),
        ),
    )


def pixels(c: Config, run: Workload) -> Sequences:
    """Those of an image, in the place of a text's bytes."""
    side = c.size("image_size")
    return Sequences(run.target.batch, side * side)


def text_input(c: Config, run: Workload) -> Iterator[Component]:
    """Vectors of bytes and of their positions."""
    width, tokens = c.size("d_model"), run.target.tokens
    yield embedding("input_preprocessor.embeddings", c.size("vocab_size"), width, tokens)
    places = c.size("max_position_embeddings")
    yield learned_position("input_preprocessor.position_embeddings", places, width, tokens)


def image_input(c: Config, inputs: Sequences) -> Iterator[Component]:
    """A map of each pixel, and beside it one of its position."""
    e, tokens, side = IMAGE_CHANNELS, inputs.tokens, c.size("image_size")
    yield convolution("input_preprocessor.convnet_1x1", PIXEL_CHANNELS, e, (1, 1), tokens, input_gradient=False)
    yield parameter("input_preprocessor.position_embeddings.position_embeddings", side * side, e)
    yield linear("input_preprocessor.positions_projection", e, e, tokens)


def decoder(c: Config, run: Workload, latents: Sequences) -> Iterator[Component]:
    """Trained queries of the output, that read the latent vectors."""
    query = "output_position_encodings.position_embeddings"
    if c.head == "ForMaskedLM":
        places, width = c.size("max_position_embeddings"), c.size("d_model")
        outputs = Sequences(run.target.batch, places)
        read = perceiver_layer(WRITES_WORDS, c, run, outputs, latents, width="d_model", seen="d_latents")
        yield Component("decoder", "decoder", parts=(parameter(query, places, width), read))
    elif c.head != "Model":
        width, one = c.size("d_latents"), Sequences(run.target.batch, 1)
        read = perceiver_layer(WRITES_CLASS, c, run, one, latents, width="d_latents", seen="d_latents")
        final = linear("final_layer", width, labels(c), one.tokens)
        yield Component("decoder.decoder", "decoder", parts=(parameter(query, 1, width), read, final))


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


def perceiver_layer(
    kind: Kind,
    c: Config,
    run: Workload,
    queries: Sequences,
    keys: Sequences,
    *,
    width: Width,
    seen: Width | None = None,
) -> Component:
    """Attention, to vectors that are ``seen`` wide if they are others', and a feed-forward network."""
    w, tokens = value(c, width), queries.tokens
    other = width if seen is None else seen
    shape = width if seen is None or c.word(SHAPE, ("q", "kv")) == "q" else seen
    qk = given(c, kind.qk, shape)
    v = given(c, kind.v, qk)
    a, d_k, d_v = value(c, kind.heads), per_head(c, qk, kind.heads), per_head(c, v, kind.heads)
    to = value(c, v) if seen is None else w
    block = Attention(
        w, a, a, d_k, d_v, bias=True, key_width=value(c, other), value_width=value(c, other), names=NAMES, output_to=to
    )
    inner = value(c, kind.widening) * w
    ffn = FeedForward(w, inner, c.word("hidden_act"), bias=True, names=("dense1", "dense2"))("mlp", queries, run)
    before = [norm("attention.self.layernorm2", "layernorm", value(c, other), keys.tokens)] if seen is not None else []
    parts = (
        norm("attention.self.layernorm1", "layernorm", w, tokens),
        *before,
        block("attention", queries, keys, run, causal=False),
        norm("layernorm", "layernorm", w, tokens),
        ffn,
    )
    return layer(kind.name, parts, tokens * w)


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
