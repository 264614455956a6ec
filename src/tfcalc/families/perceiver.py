"""Perceiver: a few latent vectors read a long input, and are read by the queries of the output."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, labels
from tfcalc.core.number import Num, divide
from tfcalc.errors import InvalidModel
from tfcalc.families import bert_kit as kit
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Linear, Stored, parameter
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.embeddings import Positions
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.model import Predictions
from tfcalc.nn.module import Module
from tfcalc.nn.perceiver import (
    ColourMap,
    LatentDecoder,
    LatentEncoder,
    Perceiver,
    PerceiverLayer,
    RepeatedStack,
    WithoutMore,
    WithPlaces,
)

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
    """What its decoder makes."""
    assert isinstance(base, Perceiver)
    return WithoutMore("", base)


TOPS: dict[str, Top] = {
    "Model": bare,
    "ForMaskedLM": words,
    "ForSequenceClassification": no_more,
    "ForImageClassificationLearned": no_more,
}


@family("perceiver", architecture="PerceiverForMaskedLM", heads=TOPS)
def perceiver(c: Config) -> Module:
    """Jaegle et al. 2021 (arXiv 2107.14795): the block of self-attention is run ``num_blocks`` times."""
    image, count = c.head == "ForImageClassificationLearned", c.number("num_self_attends_per_block")
    seen: Width = 2 * IMAGE_CHANNELS if image else "d_model"
    thinks = perceiver_layer(THINKS, c, width="d_latents").but(times=c.size("num_blocks"))
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


def image_input(c: Config) -> tuple[ColourMap, Stored, Linear]:
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
    to = value(c, v) if seen is None else w
    widths = {"Q": (w, a * d_k), "K": (other, a * d_k), "V": (other, a * d_v)}
    maps = tuple(Linear(name, *widths[letter], letter, True) for name, letter in zip(NAMES, "QKV", strict=False))
    of = Attention if seen is None else CrossAttention
    drops = bool(c.get("attention_probs_dropout_prob"))
    back = Linear(NAMES[-1], a * d_v, to, "O", True)
    mixer = of("attention", a, a, d_k, d_v, maps, (), back, causal=False, eager=OWN_SOFTMAX, dropout=drops)
    inner = value(c, kind.widening) * w
    ffn = FeedForward(
        "mlp", Linear("dense1", w, inner, "1", True), Linear("dense2", inner, w, "2", True), c.word("hidden_act")
    )
    before = kit.norm(c, "attention.self.layernorm2", other) if seen is not None else None
    first, last = kit.norm(c, "attention.self.layernorm1", w), kit.norm(c, "layernorm", w)
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
