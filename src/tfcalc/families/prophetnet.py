"""ProphetNet: an encoder-decoder that foresees several tokens at once."""

from __future__ import annotations

from dataclasses import replace

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.blocks.ngram_attention import NAMES, NgramAttention
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import bare, lm_head
from tfcalc.leaves import embedding, learned_position, norm
from tfcalc.workload import Sequences, Workload

DECODER_ONLY = "ForCausalLM"


def words(c: Config, tokens: Num, *, tied: bool) -> Component:
    """The table of words: the model has one, and each of its halves one that may be the same."""
    tied_to = "embedding" if tied else None
    return embedding("word_embeddings", c.size("vocab_size"), c.size("hidden_size"), tokens, tied_to=tied_to)


def tables(c: Config, stream: Sequences) -> tuple[Component, ...]:
    """Words, positions, and the norm of their sum."""
    h, tokens = c.size("hidden_size"), stream.tokens
    return (
        words(c, tokens, tied=c.flag("tie_word_embeddings")),
        learned_position("position_embeddings", c.size("max_position_embeddings"), h, tokens),
        norm("embeddings_layer_norm", "layernorm", h, tokens),
    )


def attention(c: Config, run: Workload, name: str, side: str, queries: Sequences, keys: Sequences) -> Component:
    """Attention among all tokens of the source, or to them."""
    h, heads = c.size("hidden_size"), f"num_{side}_attention_heads"
    a, d = c.size(heads), c.quotient("hidden_size", heads)
    return Attention(h, a, a, d, d, bias=True, names=NAMES)(name, queries, keys, run, causal=False)


def layers(c: Config, run: Workload, side: str, stream: Sequences, *mixers: Component) -> Component:
    """Mixers and a feed-forward network, each with a norm after it."""
    h, tokens = c.size("hidden_size"), stream.tokens
    block = FeedForward(
        h, c.size(f"{side}_ffn_dim"), c.word("activation_function"), bias=True, names=("intermediate", "output")
    )
    parts = (*mixers, block("feed_forward", stream, run))
    norms = (norm(f"{part.name}_layer_norm", "layernorm", h, tokens) for part in parts)
    return layer("layers", (*parts, *norms), tokens * h, copies=c.size(f"num_{side}_layers"))


def encoder(c: Config, run: Workload) -> Component:
    """BERT-like layers."""
    stream = run.source
    mixer = attention(c, run, "self_attn", "encoder", stream, stream)
    return Component("encoder", "encoder", parts=(*tables(c, stream), layers(c, run, "encoder", stream, mixer)))


def decoder(c: Config, run: Workload) -> Component:
    """A main stream and ``ngram`` others, each with a vector of its own for how far ahead it looks."""
    h, heads, ngram = c.size("hidden_size"), "num_decoder_attention_heads", c.size("ngram")
    block = NgramAttention(h, c.size(heads), c.quotient("hidden_size", heads), ngram, c.size("num_buckets"))
    mixers = [block("self_attn", run.target, run)]
    streams = Sequences(run.batch_size, run.seq_len * (1 + ngram))
    if c.flag("add_cross_attention"):
        mixers.append(attention(c, run, "cross_attn", "decoder", streams, run.source))
    ahead = embedding("ngram_embeddings", ngram, h, run.target.tokens * ngram)
    stack = layers(c, run, "decoder", streams, *mixers)
    return Component("decoder", "decoder", parts=(*tables(c, run.target), ahead, stack))


def logits(c: Config, run: Workload, base: Component) -> tuple[Component, ...]:
    """Logits of all streams but the main one."""
    ahead = replace(run, seq_len=run.seq_len * c.size("ngram"))
    return tuple(lm_head()(c, ahead, base))


@family(
    "prophetnet",
    architecture="ProphetNetForCausalLM",
    heads={"Model": bare, "ForConditionalGeneration": logits, DECODER_ONLY: logits},
    vocab_size=30522,
    hidden_size=1024,
    encoder_ffn_dim=4096,
    num_encoder_layers=12,
    num_encoder_attention_heads=16,
    decoder_ffn_dim=4096,
    num_decoder_layers=12,
    num_decoder_attention_heads=16,
    activation_function="gelu",
    max_position_embeddings=512,
    add_cross_attention=True,
    ngram=2,
    num_buckets=32,
    tie_word_embeddings=True,
)
def prophetnet(c: Config, run: Workload) -> Component:
    """Qi et al. 2020 (arXiv 2001.04063); the decoder by itself where it is to be a language model."""
    halves = [decoder(c, run)] if c.head == DECODER_ONLY else [encoder(c, run), decoder(c, run)]
    return Component("prophetnet", "encoder-decoder", parts=(words(c, 0, tied=False), *halves))
