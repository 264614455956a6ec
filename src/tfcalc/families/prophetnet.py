"""ProphetNet: an encoder-decoder that guesses the next few words at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfcalc.blocks import Attention, FeedForward, layer
from tfcalc.blocks.ngram_attention import NAMES, NgramAttention
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, lm_head, renamed
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.seq2seq_kit import ALONE
from tfcalc.leaves import embedding, learned_position, norm
from tfcalc.workload import Sequences, Workload


def attention(
    c: Config,
    run: Workload,
    side: str,
    name: str,
    queries: Sequences,
    keys: Sequences,
    *within: Component,
    causal: bool = False,
) -> Component:
    """Multi-head attention with biases."""
    h, heads = c.size("hidden_size"), f"num_{side}_attention_heads"
    a, d = c.size(heads), c.quotient("hidden_size", heads)
    return Attention(h, a, a, d, d, bias=True, names=NAMES, within=within)(name, queries, keys, run, causal=causal)


def half(
    c: Config, run: Workload, side: str, stream: Sequences, *tables: Component, mixers: dict[str, Component], tied: bool
) -> Component:
    """One of the two stacks; ``mixers`` are the layers' by the name of the norm that follows each."""
    h, t = c.size("hidden_size"), stream.tokens
    ffn = FeedForward(
        h, c.size(f"{side}_ffn_dim"), c.word("activation_function"), bias=True, names=("intermediate", "output")
    )
    sublayers = mixers | {"feed_forward_layer_norm": ffn("feed_forward", stream, run)}
    return Component(
        side,
        side,
        parts=(
            _words(c, t, name="word_embeddings", tied_to="word_embeddings" if tied else None),
            learned_position("position_embeddings", c.size("max_position_embeddings"), h, t),
            *tables,
            norm("embeddings_layer_norm", "layernorm", h, t),
            layer("layers", _normed(sublayers, h, t), t * h, copies=c.size(f"num_{side}_layers")),
        ),
    )


def _normed(sublayers: dict[str, Component], width: Num, tokens: Num) -> Iterator[Component]:
    for name, sublayer in sublayers.items():
        yield sublayer
        yield norm(name, "layernorm", width, tokens)._replace(passes=sublayer.passes)


def _words(c: Config, tokens: Num, *, name: str = "word_embeddings", tied_to: str | None = None) -> Component:
    return embedding(name, c.size("vocab_size"), c.size("hidden_size"), tokens, tied_to=tied_to)


def logits(c: Config, run: Workload, base: Component) -> Iterable[Component]:
    """Logits of the guesses alone, not of the words themselves."""
    return lm_head()(c, replace(run, batch_size=run.batch_size * c.size("ngram")), base)


@family(
    "prophetnet",
    architecture="ProphetNetForCausalLM",
    heads={
        "Model": bare,
        "ForConditionalGeneration": renamed("prophetnet", logits),
        ALONE: renamed("prophetnet", logits),
    },
    aliases={"num_attention_heads": "num_encoder_attention_heads"},
)
def prophetnet(c: Config, run: Workload) -> Component:
    """Qi et al. 2020 (arXiv 2001.04063): beside the words themselves, the decoder has ``ngram`` streams of guesses."""
    decoder = _decoder(c, run)
    if c.head == ALONE:
        return Component("model", "decoder", parts=(_words(c, 0), decoder))
    stream, tied = run.source, c.flag("tie_word_embeddings")
    mixers = {"self_attn_layer_norm": attention(c, run, "encoder", "self_attn", stream, stream)}
    encoder = half(c, run, "encoder", stream, mixers=mixers, tied=tied)
    return Component("model", "encoder-decoder", parts=(_words(c, 0), encoder, decoder))


def _decoder(c: Config, run: Workload) -> Component:
    h, ngram, words = c.size("hidden_size"), c.size("ngram"), run.target
    streams = Sequences(words.batch, words.length * (ngram + 1))
    heads, d = c.size("num_decoder_attention_heads"), c.quotient("hidden_size", "num_decoder_attention_heads")
    mixer = NgramAttention(h, heads, d, ngram, c.size("num_buckets"))("self_attn", words, run)
    mixers = {"self_attn_layer_norm": mixer}
    if c.flag("add_cross_attention"):
        read = attention(c, run, "decoder", "cross_attn", streams, run.source)
        mixers["cross_attn_layer_norm"] = read._replace(passes=0 if c.head == ALONE else 1)
    guesses = embedding("ngram_embeddings", ngram, h, ngram)
    return half(c, run, "decoder", streams, guesses, mixers=mixers, tied=c.flag("tie_word_embeddings"))
