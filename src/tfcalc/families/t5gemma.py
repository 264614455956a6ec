"""T5Gemma: a Gemma that reads, and a Gemma that writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfcalc.blocks import GATED, LLAMA_NAMES, Attention, FeedForward, layer
from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family, nested
from tfcalc.configs.heads import bare, labels, output
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.gemma import CODE
from tfcalc.families.llama import head_dim, kv_heads
from tfcalc.families.unread import unread_heads
from tfcalc.leaves import embedding, linear, norm, parameter
from tfcalc.nn.attention import Attention as AttentionModule
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.encoder_decoder import EncoderDecoder, EncoderOnly, EncoderStack
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.model import Decoder, Predictions, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.rope import Rope
from tfcalc.nn.stack import Stack
from tfcalc.workload import Sequences, Workload

ENCODER_ONLY = "EncoderModel"
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
MODULE: dict[str, Any] = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
}
IMAGES: dict[str, Any] = {"mm_tokens_per_image": 256}


def side(c: Config, name: str) -> Config:
    """The nested config of the ``encoder`` or the ``decoder``."""
    return c.sub(name, defaults=module(c.defaults["vocab_size"]) | (CAPS if c.model_type == "t5gemma" else {}))


def module(words: int) -> dict[str, Any]:
    """The defaults of a stack."""
    return MODULE | {"vocab_size": words}


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
    """Gemma's; keys and values may be made of vectors of another width, and are not rotated then."""
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
        rotary=d if key_width is None else None,
    )
    return block(name, queries, keys, run, causal=causal)


def half(
    c: Config,
    run: Workload,
    name: str,
    stream: Sequences,
    *tables: Component,
    tied_to: str | None = None,
    **mixers: Component,
) -> Component:
    """One of the two stacks: a norm before and after each mixer of tokens, and the feed-forward network."""
    h, t = c.size("hidden_size"), stream.tokens
    ffn = FeedForward(h, c.size("intermediate_size"), c.word("hidden_activation"), names=GATED, gated=True)
    sublayers = (*mixers.items(), ("feedforward", ffn("mlp", stream, run)))
    parts = [part for place, sublayer in sublayers for part in _between_norms(place, sublayer, h, t)]
    return Component(
        name,
        name,
        parts=(
            embedding("embed_tokens", c.size("vocab_size"), h, t, tied_to=tied_to),
            *tables,
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


def mixer(
    c: Config,
    whole: Config,
    name: str,
    of: type[AttentionModule] = AttentionModule,
    *,
    read: Num | None = None,
    **more: Any,
) -> AttentionModule:
    """The same as a module; probabilities of dropout are those of the ``whole``."""
    h, a, g, d, bias = (
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        kv_heads(c),
        head_dim(c),
        c.flag("attention_bias"),
    )
    from_, (q, k, v, o) = h if read is None else read, LLAMA_NAMES
    maps = Linear(q, h, a * d, "Q", bias), Linear(k, from_, g * d, "K", bias), Linear(v, from_, g * d, "V", bias)
    rope, caps = Rope(d) if read is None else None, c.get("attn_logit_softcapping") is not None
    drops, back = bool(whole.get("attention_dropout")), Linear(o, a * d, h, "O", bias)
    return of(name, a, g, d, d, maps, (), back, rope=rope, capped=caps, dropout=drops, **more)


def stacked(c: Config, whole: Config, name: str, of: type[Decoder], *mixers: AttentionModule) -> Decoder:
    """One of the two stacks as a module."""
    h, f, drops, layers = (
        c.size("hidden_size"),
        c.size("intermediate_size"),
        bool(whole.get("dropout_rate")),
        "num_hidden_layers",
    )
    gate, up, down = GATED
    maps = Linear(gate, h, f, "g"), Linear(up, h, f, "1"), Linear(down, f, h, "2")
    ffn = GatedFeedForward("mlp", *maps, c.word("hidden_activation"), dropout=drops)
    places = [
        f"{when}_{each}_layernorm"
        for each in (*(one.name for one in mixers), "feedforward")
        for when in ("pre", "post")
    ]
    norms = tuple(Norm(place, "rmsnorm", h, CODE) for place in places)
    layer, last = Sandwich("layers", (*mixers, ffn), norms, drops), Norm("norm", "rmsnorm", h, CODE)
    stack = Stack("layers", (layer,) * c.number(layers), c.size(layers))
    words = Embedding("embed_tokens", c.size("vocab_size"), h)
    return of(name, words, stack, last, True, "float64", dropped=drops, drops_output=drops)


def logits(c: Config, base: Module) -> Module:
    """Logits by the decoder's table of words, or a matrix of their own."""
    inner, tied = side(c, "decoder"), "embedding" if c.flag("tie_word_embeddings") else None
    made = Linear("out_proj", inner.size("hidden_size"), inner.size("vocab_size"), "vocab", False, tied, "output")
    caps = inner.get("final_logit_softcapping") is not None
    return WithHead("", base, Predictions("lm_head", None, None, made), capped=caps, shifted=False)


def scores(c: Config, base: Module) -> Module:
    """Classes of the decoder's vectors; of the encoder's, where there is no decoder."""
    inner = side(c, "decoder" if c.flag("is_encoder_decoder") else "encoder")
    made = Linear("out_proj", inner.size("hidden_size"), labels(c), "", True)
    return WithHead("", base, Predictions("score", None, None, made))


@family(
    "t5gemma",
    architecture="T5GemmaForConditionalGeneration",
    heads={
        "Model": tops.bare,
        ENCODER_ONLY: tops.bare,
        "ForConditionalGeneration": logits,
        "ForSequenceClassification": scores,
        "ForTokenClassification": scores,
    },
    vocab_size=256000,  # of each of its stacks
)
def t5gemma(c: Config) -> Module:
    """T5Gemma (arXiv 2504.06225): the two may differ in size, and have a table of words each."""
    reads, alone = side(c, "encoder"), "Classification" in c.head and not c.flag("is_encoder_decoder")
    encoder = stacked(reads, c, "encoder", EncoderStack, mixer(reads, c, "self_attn", causal=False))
    if c.head == ENCODER_ONLY or alone:
        return EncoderOnly("model", encoder)
    writes = side(c, "decoder")
    reader = mixer(writes, c, "cross_attn", CrossAttention, read=reads.size("hidden_size"))
    decoder = stacked(writes, c, "decoder", Decoder, mixer(writes, c, "self_attn"), reader)
    return EncoderDecoder("model", None, encoder, decoder)


@family(
    "t5gemma2",
    architecture="T5Gemma2ForConditionalGeneration",
    heads={
        "Model": bare,
        "ForConditionalGeneration": generation,
        "ForSequenceClassification": classes,
        "ForTokenClassification": classes,
    },
    vocab_size=262208,  # of each of its stacks
)
def t5gemma2(c: Config, run: Workload) -> Component:
    """T5Gemma 2 (arXiv 2512.14856): the encoder sees images too; the decoder reads it and itself by one attention.

    The table of words is one for both, as is the vector of the word that ends an image.
    """
    whole, writes = c.sub("encoder", defaults=IMAGES), side(c, "decoder")
    reads = whole.sub("text_config", defaults=module(262208))
    text = half(reads, run, "text_model", run.source, _end_of_image(reads), self_attn=_merged(reads, run, run.source))
    encoder = Component("encoder", "encoder", parts=(text, *_eyes(whole, reads, run)))
    stream, memory = run.target, run.source
    both = Sequences(stream.batch, stream.length + memory.length, stream.seen + memory.seen)
    mixer = _merged(writes, run, run.target, both)
    if c.flag("tie_word_embeddings"):
        decoder = half(writes, run, "decoder", run.target, tied_to="encoder", self_attn=mixer)
    else:
        decoder = half(writes, run, "decoder", run.target, _end_of_image(writes), self_attn=mixer)
    return Component("model", "encoder-decoder", parts=(encoder, decoder))


def _end_of_image(c: Config) -> Component:
    return parameter("embed_tokens.eoi_embedding", c.size("hidden_size"))


def _merged(c: Config, run: Workload, stream: Sequences, seen: Sequences | None = None) -> Component:
    """Attention to what is ``seen`` (the stream itself, and for the decoder the encoder's output), by normed heads."""
    keys, d = seen or stream, c.size("head_dim")
    q_norm = norm("q_norm", "rmsnorm", d, stream.tokens * c.size("num_attention_heads"))
    k_norm = norm("k_norm", "rmsnorm", d, keys.tokens * kv_heads(c))
    return attention(c, run, "self_attn", stream, keys, q_norm, k_norm, causal=seen is not None)


def _eyes(whole: Config, text: Config, run: Workload) -> Iterator[Component]:
    """An encoder of images, and a map of its averaged vectors to words."""
    images = whole.sub("vision_config", "siglip_vision_model", head="Model")
    h, tokens = images.size("hidden_size"), run.beside(whole.size("mm_tokens_per_image")).tokens
    yield unread_heads(nested(images, run, "vision_tower"), run)
    yield Component(
        "multi_modal_projector",
        "projector",
        parts=(
            norm("mm_soft_emb_norm", "rmsnorm", h, tokens),
            linear("mm_input_projection", h, text.size("hidden_size"), tokens, bias=False),
        ),
    )
