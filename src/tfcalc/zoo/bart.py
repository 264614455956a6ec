"""BART and its variants: an encoder and a decoder of one shape, one table of words for both and for the output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.basic import Linear
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.zoo.blocks import encoder_decoders
from tfcalc.zoo.blocks.blocked_attention import PaddedStack, SlidingAttention, Windows
from tfcalc.zoo.blocks.layers import attention_windows


@family("bart", heads=encoder_decoders.HEADS | {"ForSequenceClassification": encoder_decoders.sentence(default=3)})
def bart(c: Config) -> Module:
    """Lewis et al. 2019 (arXiv 1910.13461): a norm of the embedding, none after the last layer."""
    return encoder_decoders.seq2seq(c, encoder_decoders.BART_PLACES, normed=True)


@family("mbart", heads=encoder_decoders.HEADS)
def mbart(c: Config) -> Module:
    """Liu et al. 2020 (arXiv 2001.08210): a norm of the embedding, and one after the last layer."""
    return encoder_decoders.seq2seq(c, encoder_decoders.BART_PLACES, normed=True, pre_norm=True)


@family("blenderbot", heads=encoder_decoders.HEADS)
def blenderbot(c: Config) -> Module:
    """Roller et al. 2020 (arXiv 2004.13637): positions without spare rows."""
    return encoder_decoders.seq2seq(c, encoder_decoders.learned(), pre_norm=True)


@family("pegasus", heads=encoder_decoders.HEADS)
def pegasus(c: Config) -> Module:
    """Zhang et al. 2019 (arXiv 1912.08777): fixed positions, which count as parameters that are not trained."""
    return encoder_decoders.seq2seq(c, encoder_decoders.sines(stored=True), pre_norm=True)


@family("m2m_100", heads={"Model": tops.bare, "ForConditionalGeneration": encoder_decoders.generation(bias=False)})
def m2m_100(c: Config) -> Module:
    """Fan et al. 2020 (arXiv 2010.11125); NLLB-200 (arXiv 2207.04672). Fixed positions that no checkpoint holds."""
    return encoder_decoders.seq2seq(c, encoder_decoders.sines(stored=False), pre_norm=True)


@family(
    "led",
    heads={
        "Model": tops.bare,
        **{
            name: tops.renamed("led", encoder_decoders.HEADS[name])
            for name in ("ForConditionalGeneration", "ForQuestionAnswering")
        },
    },
)
def led(c: Config) -> Module:
    """Beltagy et al. 2020 (arXiv 2004.05150), section 7: BART with Longformer's attention in the encoder.

    Its sequences are filled up to whole windows. No token is global: only a mask would say which.
    """
    windows = attention_windows(c, "encoder_layers")
    places = encoder_decoders.learned(rows="max_{}_position_embeddings")
    reader = partial(PaddedStack, filling=Windows(max(windows)))
    return encoder_decoders.seq2seq(
        c, places, normed=True, layers=partial(_windowed, windows), reader=reader, scales=False
    )


def _windowed(windows: Sequence[int], c: Config, side: str) -> Stack:
    if side == "decoder":
        return encoder_decoders.equal_layers(c, side, pre_norm=False)
    h, heads = c.size("d_model"), "encoder_attention_heads"
    names = [f"longformer_self_attn.{each}" for each in ("query", "key", "value")]
    maps = tuple(Linear(name, h, h, "", True) for name in names)
    of_marked = tuple(Linear(f"{name}_global", h, h, "", True) for name in names)
    sizes = c.size(heads), c.quotient("d_model", heads)
    back, drops = Linear("output", h, h, "O", True), bool(c.get("attention_dropout"))

    def layer(window: int) -> Module:
        mixer = SlidingAttention("self_attn", *sizes, maps, of_marked, back, window, max(windows), dropout=drops)
        return encoder_decoders.layer(c, [mixer, encoder_decoders.network(c, side)], pre_norm=False)

    made = {window: layer(window) for window in dict.fromkeys(windows)}
    return encoder_decoders.stack(c, side, [made[window] for window in windows])


def _target_rows(c: Config) -> str:
    return "decoder_vocab_size" if c.get("decoder_vocab_size") else "vocab_size"


def translation(c: Config, base: Module) -> Module:
    """Logits over the words of the language that is translated to."""
    own = not c.flag("share_encoder_decoder_embeddings")
    return encoder_decoders.generation(rows=_target_rows(c) if own else "vocab_size")(c, base)


def _own_words(c: Config, base: Module) -> Module:
    """Logits of the decoder by itself: tied, over the words of its own table."""
    rows = _target_rows(c) if c.flag("tie_word_embeddings") else "vocab_size"
    return encoder_decoders.generation(rows=rows, bias=False)(c, base)


@family("marian", heads={"Model": tops.bare, "MTModel": translation, encoder_decoders.ALONE: _own_words})
def marian(c: Config) -> Module:
    """Junczys-Dowmunt et al. 2018 (arXiv 1804.00344): the two languages may have a table each."""
    share = c.flag("share_encoder_decoder_embeddings")
    return encoder_decoders.seq2seq(c, encoder_decoders.sines(stored=True), rows=_target_rows(c), share=share)
