"""Funnel Transformer: blocks of layers, each on a sequence half as long as the one before."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, lm_head
from tfcalc.families import bert_kit as kit
from tfcalc.families.bert_tops import classes, dense_classes
from tfcalc.nn.basic import Embedding, Linear, parameter
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.funnel import DistanceMap, FunnelAttention, FunnelLayer
from tfcalc.nn.heads import TOKENS
from tfcalc.nn.module import Module
from tfcalc.nn.shortening import Funnel, LayerTurns, LongAgain, Rows, ShortBlock, ShortStack

CLASSIFIER = ("classifier.linear_hidden", "classifier.linear_out")
DISCRIMINATOR = ("discriminator_predictions.dense", "discriminator_predictions.dense_prediction")
DROPPED = "hidden_dropout"
HEADS: dict[str, Top] = {
    "Model": bare,
    "BaseModel": bare,
    "ForMaskedLM": lm_head(bias=True, shifted=False, upcasts=False),
    "ForPreTraining": dense_classes(DISCRIMINATOR, 1, reads=TOKENS, dropped="", act=""),
    "ForSequenceClassification": dense_classes(CLASSIFIER, dropped=DROPPED, undropped=CLASSIFIER[:1]),
    "ForMultipleChoice": dense_classes(CLASSIFIER, 1, dropped=DROPPED, undropped=CLASSIFIER[:1]),
    "ForTokenClassification": classes("classifier", dropped=DROPPED),
    "ForQuestionAnswering": classes("qa_outputs", dropped=""),
}
SHORT = ("BaseModel", "ForSequenceClassification", "ForMultipleChoice")
"""The classes that need no vector for each token, and so have no decoder."""


@family("funnel", heads=HEADS)
def funnel(c: Config) -> Module:
    """Dai et al. 2020 (arXiv 2006.03236): no tables of positions; a decoder makes the sequence long again."""
    h, words = c.size("hidden_size"), Embedding("word_embeddings", c.size("vocab_size"), c.size("hidden_size"))
    table = Embeddings("embeddings", (words,), kit.norm(c, "layer_norm"), bool(c.get(DROPPED)))
    flags = (c.flag("pool_q_only"), c.flag("separate_cls"), c.flag("truncate_seq"))
    pooling = c.word("pooling_type", ("mean", "max", "min"))
    encoder = ShortStack("encoder", tuple(blocks(c)), h, *flags, _factorized(c), pooling)
    return Funnel("funnel", table, encoder, None if c.head in SHORT else LongAgain("decoder", _long(c)))


def _factorized(c: Config) -> bool:
    return c.word("attention_type", ("relative_shift", "factorized")) == "factorized"


def _long(c: Config) -> Rows | None:
    """The decoder's layers."""
    depth = c.number("num_decoder_layers", least=0)
    return Rows("layers", layer("layers", c), depth, c.size("num_decoder_layers", least=0)) if depth else None


def blocks(c: Config) -> Iterator[ShortBlock]:
    """Blocks of ``block_sizes`` layers, each run ``block_repeats`` times; the very first run shortens the sequence."""
    sizes = c.numbers("block_sizes", least=1, some=True)
    repeats = c.numbers("block_repeats", len(sizes), least=1) if c.has("block_repeats") else [1] * len(sizes)
    for place, (size, times) in enumerate(zip(sizes, repeats, strict=True)):
        first = layer("(first)", c)
        again = LayerTurns("(again)", first, times - 1, further=True) if times > 1 else None
        others = Rows("(others)", layer("(others)", c), size - 1, size - 1, times) if size > 1 else None
        yield ShortBlock(f"blocks[{place}]", first, again, others)


def layer(name: str, c: Config) -> FunnelLayer:
    """Attention within a sequence, or to a longer one, and a feed-forward network."""
    h, a, d, f = c.size("hidden_size"), c.size("num_attention_heads"), c.size("d_head"), c.size("d_inner")
    q, k, v = (Linear(f"{one}_head", h, a * d, one.upper(), one != "q") for one in "qkv")
    u, w, s = (parameter(f"r_{letter}_bias", a, d, minor=True) for letter in "wrs")
    mixer = FunnelAttention(
        "attention",
        a,
        d,
        (q, k, v),
        DistanceMap("r_kernel", h, a * d, "R", heads=a, head_dim=d),
        (u, w, s),
        parameter("seg_embed", 2, a, d),
        Linear("post_proj", a * d, h, "O", True),
        _factorized(c),
        bool(c.get("attention_dropout")),
    )
    up, down = Linear("linear_1", h, f, "1", True), Linear("linear_2", f, h, "2", True)
    ffn = FeedForward("ffn", up, down, c.word("hidden_act"), dropout=bool(c.get("activation_dropout")))
    norms = kit.norm(c, "attention.layer_norm"), kit.norm(c, "ffn.layer_norm")
    return FunnelLayer(name, mixer, ffn, norms, bool(c.get(DROPPED)))
