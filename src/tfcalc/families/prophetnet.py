"""ProphetNet: an encoder-decoder that guesses the next few words at once."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import Top, bare, logits, renamed
from tfcalc.families import layers as layer_blocks
from tfcalc.families.layers import network
from tfcalc.families.seq2seq_kit import ALONE
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.embeddings import TOKENS, Positions
from tfcalc.nn.encoder_decoder import EncoderDecoder, EncoderStack
from tfcalc.nn.layers import PostNorm
from tfcalc.nn.module import Module
from tfcalc.nn.ngram import BesideDecoder, NgramAttention, NgramDecoder, WithGuesses
from tfcalc.nn.stack import Stack

NAMES = ("query_proj", "key_proj", "value_proj", "out_proj")


def attention(c: Config, side: str, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Multi-head attention with biases."""
    h, heads = c.size("hidden_size"), f"num_{side}_attention_heads"
    a, d = c.size(heads), c.quotient("hidden_size", heads)
    *maps, back = (Linear(each, h, h, letter, True) for each, letter in zip(NAMES, "QKVO", strict=True))
    drops = bool(c.get("attention_dropout"))
    return of(
        name, a, a, d, d, tuple(maps), (), back, causal=False, masked=False, dropout=drops, eager=OWN_SOFTMAX, **more
    )


def layers(c: Config, side: str, *mixers: Module) -> Stack:
    """Equal ones, of these and a network, with a norm behind each."""
    h, depth = c.size("hidden_size"), f"num_{side}_layers"
    ffn = network(
        "feed_forward", ("intermediate", "output"), h, c.size(f"{side}_ffn_dim"), c.word("activation_function")
    )
    subs = (*mixers, ffn.but(dropout=bool(c.get("activation_dropout"))))
    norms = tuple(norm(c, f"{sub.name}_layer_norm") for sub in subs)
    return layer_blocks.stack(c, PostNorm("layers", subs, norms, bool(c.get("dropout"))), depth)


def norm(c: Config, name: str) -> Norm:
    """A LayerNorm of the model's width."""
    return Norm(name, "layernorm", c.size("hidden_size"))


def tables(c: Config, *, tied: bool) -> tuple[Embedding, Positions]:
    """Those of words and of positions."""
    h, words = c.size("hidden_size"), "word_embeddings"
    places = Positions("position_embeddings", c.size("max_position_embeddings"), h, TOKENS)
    return Embedding(words, c.size("vocab_size"), h, words if tied else None), places


def guesses(*, copies_first: bool) -> Top:
    """Logits of the guesses alone, not of the words themselves."""

    def top(c: Config, base: Module) -> Module:
        tied = c.flag("tie_word_embeddings")
        head = logits("lm_head", c.size("hidden_size"), c.size("vocab_size"), tied=tied)
        return WithGuesses("", base, head, ngram=c.size("ngram"), copies_first=copies_first, shifted=False)

    return renamed("prophetnet", top)


@family(
    "prophetnet",
    architecture="ProphetNetForCausalLM",
    heads={"Model": bare, "ForConditionalGeneration": guesses(copies_first=True), ALONE: guesses(copies_first=False)},
)
def prophetnet(c: Config) -> Module:
    """Qi et al. 2020 (arXiv 2001.04063): beside the words themselves, the decoder has ``ngram`` streams of guesses."""
    tied, dropped = c.flag("tie_word_embeddings"), bool(c.get("dropout"))
    first = norm(c, "embeddings_layer_norm")
    shared, places = tables(c, tied=False)
    words, _ = tables(c, tied=tied)
    decoder = NgramDecoder(
        "decoder",
        words,
        layers(c, "decoder", *_mixers(c)),
        None,
        added=(places,),
        dropped=dropped,
        normed=first,
        guesses=Embedding("ngram_embeddings", c.size("ngram"), c.size("hidden_size")),
        ngram=c.size("ngram"),
    )
    if c.head == ALONE:
        return BesideDecoder("model", shared, decoder)
    made = layers(c, "encoder", attention(c, "encoder", "self_attn"))
    encoder = EncoderStack("encoder", words, made, None, added=(places,), dropped=dropped, normed=first)
    return EncoderDecoder("model", shared, encoder, decoder)


def _mixers(c: Config) -> list[Module]:
    """Attention of the streams; and to the encoder, which a decoder by itself may hold and never runs."""
    sizes = {"ngram": c.size("ngram"), "buckets": c.size("num_buckets")}
    letters = c.size("num_buckets") * c.size("num_decoder_attention_heads")
    distances = Linear("relative_pos_embeddings", c.size("hidden_size"), letters, "rel", True)
    subs: list[Module] = [attention(c, "decoder", "self_attn", NgramAttention, distances=distances, **sizes)]
    if c.flag("add_cross_attention"):
        subs.append(attention(c, "decoder", "cross_attn", CrossAttention, reads=c.head != ALONE))
    return subs
