"""T5Gemma: a Gemma that reads, and a Gemma that writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.config import Config
from tfcalc.families.family import family
from tfcalc.families.heads import bare, labels, output
from tfcalc.families.llama import head_dim, kv_heads
from tfcalc.leaves import embedding, linear, norm
from tfcalc.workload import Sequences, Workload

ENCODER_ONLY = "EncoderModel"
MODULE: dict[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
}


def side(c: Config, name: str) -> Config:
    """The nested config of the ``encoder`` or the ``decoder``."""
    return c.sub(name, "t5_gemma_module", MODULE)


def attention(
    c: Config,
    run: Workload,
    name: str,
    queries: Sequences,
    keys: Sequences,
    *within: Component,
    causal: bool = False,
    key_width: Num | None = None,
) -> Component:
    """Gemma's; keys and values may be made of vectors of another width."""
    d = head_dim(c)
    block = Attention(
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kv_heads(c),
        d,
        d,
        bias=c.flag("attention_bias"),
        key_width=key_width,
        value_width=key_width,
        names=LLAMA_NAMES,
        within=within,
    )
    return block(name, queries, keys, run, causal=causal)


def half(c: Config, run: Workload, name: str, stream: Sequences, **mixers: Component) -> Component:
    """One of the two stacks: a norm before and after each mixer of tokens, and the feed-forward network."""
    h, t = c.size("hidden_size"), stream.tokens
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_activation"), names=GATED, gated=True)
    sublayers = (*mixers.items(), ("feedforward", ffn("mlp", stream, run)))
    parts = [part for place, sublayer in sublayers for part in _between_norms(place, sublayer, h, t)]
    return Component(
        name,
        name,
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, t),
            layer("layers", parts, t * h, copies=c.size("num_hidden_layers")),
            norm("norm", "rmsnorm", h, t),
        ),
    )


def _between_norms(place: str, sublayer: Component, width: Num, tokens: Num) -> Iterator[Component]:
    yield norm(f"pre_{place}_layernorm", "rmsnorm", width, tokens)
    yield sublayer
    yield norm(f"post_{place}_layernorm", "rmsnorm", width, tokens)


def generation(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Logits by the decoder's table of words, or a matrix of their own."""
    inner = side(c, "decoder")
    made = output(
        "out_proj", inner.size("hidden_size"), inner.size("vocab_size"), run, tied=c.flag("tie_word_embeddings")
    )
    yield base
    yield Component("lm_head", "head", parts=(made,))


def classes(c: Config, run: Workload, base: Component) -> Iterator[Component]:
    """Classes of the decoder's vectors; of the encoder's, where there is no decoder."""
    inner = side(c, "decoder" if c.flag("is_encoder_decoder") else "encoder")
    yield base
    yield Component(
        "score", "head", parts=(linear("out_proj", inner.size("hidden_size"), labels(c), run.target.tokens),)
    )


@family(
    "t5gemma",
    architecture="T5GemmaForConditionalGeneration",
    heads={
        "Model": bare,
        ENCODER_ONLY: bare,
        "ForConditionalGeneration": generation,
        "ForSequenceClassification": classes,
        "ForTokenClassification": classes,
    },
    is_encoder_decoder=True,
    tie_word_embeddings=True,
)
def t5gemma(c: Config, run: Workload) -> Component:
    """T5Gemma (arXiv 2504.06225): the two may differ in size, and have a table of words each."""
    reads, memory = side(c, "encoder"), run.source
    encoder = half(reads, run, "encoder", memory, self_attn=attention(reads, run, "self_attn", memory, memory))
    if c.head == ENCODER_ONLY or ("Classification" in c.head and not c.flag("is_encoder_decoder")):
        return Component("model", "encoder", parts=(encoder,))
    writes, stream = side(c, "decoder"), run.target
    decoder = half(
        writes,
        run,
        "decoder",
        stream,
        self_attn=attention(writes, run, "self_attn", stream, stream, causal=True),
        cross_attn=attention(writes, run, "cross_attn", stream, memory, key_width=reads.size("hidden_size")),
    )
    return Component("model", "encoder-decoder", parts=(encoder, decoder))
