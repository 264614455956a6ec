"""What BART and its kin are composed of: an encoder and a decoder of one shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, bare, classifier, labels
from tfcalc.core.cost import Tensor as Weight
from tfcalc.families.bert_tops import MASKED
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Buffer, Embedding, Linear, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.embeddings import PLACES, TOKENS, Positions, Sines
from tfcalc.nn.encoder_decoder import Alone, EncoderDecoder, EncoderStack, WithBias
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import SentenceClassifier, SentenceHead
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.model import Decoder, WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack

ALONE = "ForCausalLM"
"""The head that goes with the decoder by itself."""
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
Places = Callable[[Config, str], Module]
"""Makes a stack's table of positions, of the config and the stack's name."""


def learned(spare: int = 0, indices: str = PLACES, of_encoder: str = "") -> Places:
    """A trained table of positions. BART's has two ``spare`` rows: fairseq counted from the padding word's index."""

    def make(c: Config, side: str) -> Module:
        rows, numbers = c.size("max_position_embeddings") + spare, of_encoder if side == "encoder" else indices
        return Positions("embed_positions", rows, c.size("d_model"), numbers or indices)

    return make


BART_PLACES = learned(2, of_encoder=TOKENS)


def sines(*, stored: bool) -> Places:
    """Fixed positions, which may be parameters that are not trained."""

    def make(c: Config, side: str) -> Module:
        rows = c.size("max_position_embeddings")
        return Sines("embed_positions", c.size("d_model"), rows if stored else None)

    return make


def attention(c: Config, side: str, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Multi-head attention under the names that fairseq gave its projections."""
    heads = f"{side}_attention_heads"
    h, a, d = c.size("d_model"), c.size(heads), c.quotient("d_model", heads)
    maps = tuple(Linear(one, h, a * d, letter, True) for one, letter in zip(NAMES, "QKV", strict=False))
    drops = bool(c.get("attention_dropout"))
    return of(name, a, a, d, d, maps, (), Linear(NAMES[-1], a * d, h, "O", True), dropout=drops, softmax="own", **more)


def network(c: Config, side: str) -> FeedForward:
    """Two maps, which stand in the layer itself."""
    h, f, kind = c.size("d_model"), c.size(f"{side}_ffn_dim"), c.word("activation_function")
    up, down = Linear("fc1", h, f, "1", True), Linear("fc2", f, h, "2", True)
    return FeedForward("(ffn)", up, down, kind, bool(c.get("activation_dropout")))


def norm(c: Config, name: str) -> Norm:
    """A LayerNorm of the model's width."""
    return Norm(name, "layernorm", c.size("d_model"))


def layers(c: Config, side: str, *, pre_norm: bool, mixer: Callable[..., Attention] = attention) -> Stack:
    """Equal layers; a decoder by itself holds what would read an encoder, and never runs it."""
    causal = side == "decoder"
    subs: list[Module] = [mixer(c, side, "self_attn", causal=causal, given_ones=causal)]
    if causal:
        subs.append(mixer(c, side, "encoder_attn", CrossAttention, reads=c.head != ALONE))
    norms = [norm(c, f"{sub.name}_layer_norm") for sub in subs]
    subs, norms = [*subs, network(c, side)], [*norms, norm(c, "final_layer_norm")]
    drops, depth = bool(c.get("dropout")), f"{side}_layers"
    if pre_norm:
        layer = PreNorm("layers", tuple(subs), tuple(norms), drops)
    else:
        layer = PostNorm("layers", tuple(subs), tuple(norms), drops, in_line=False)
    return Stack("layers", (layer,) * c.number(depth), c.size(depth))


def seq2seq(
    c: Config,
    places: Places,
    *,
    normed: bool = False,
    pre_norm: bool = False,
    rows: str = "vocab_size",
    share: bool = True,
    scales: bool = True,
) -> Module:
    """Shared table, encoder and decoder; as a ``ForCausalLM`` only the decoder, whose table is its own.

    The embedding is ``normed``, or norms stand before sub-layers (``pre_norm``) and behind the last one, or both.
    ``rows`` is the field with the length of the decoder's own table, if it has one: where they do not ``share`` it, or
    it is not tied.
    """
    alone, tied, h = c.head == ALONE, share and c.flag("tie_word_embeddings"), c.size("d_model")

    def half(side: str, of: type[Decoder], table: Embedding) -> Decoder:
        first, last = (norm(c, "layernorm_embedding") if normed else None), norm(c, "layer_norm") if pre_norm else None
        stack = layers(c, side, pre_norm=pre_norm)
        return of(side, table, stack, last, added=(places(c, side),), dropped=bool(c.get("dropout")), normed=first)

    own = "shared" if tied and not alone else None
    decoder = half("decoder", Decoder, Embedding("embed_tokens", c.size(rows), h, own, scales))
    if alone:
        return Alone("model", decoder)
    read = Embedding("embed_tokens", c.size("vocab_size"), h, "shared" if tied else None, scales)
    encoder = half("encoder", EncoderStack, read)
    table = Embedding("shared", c.size("vocab_size"), h) if share else None
    return EncoderDecoder("model", table, encoder, decoder)


def generation(*, rows: str = "vocab_size", bias: bool = True) -> Top:
    """Logits by the shared table, and a bias on them that is stored but not trained."""

    def top(c: Config, base: Module) -> Module:
        tied, words = "embedding" if c.flag("tie_word_embeddings") else None, c.size(rows)
        head = Linear("lm_head", c.size("d_model"), words, "vocab", False, tied, "output")
        if not bias:
            return WithHead("", base, head, **MASKED)
        held = Buffer("final_logits_bias", Weight("final_logits_bias", (words,), key=""))
        return WithBias("", base, head, bias=held, **MASKED)

    return top


def sentence(default: int = 2) -> Top:
    """A class for each sequence, from its last token; ``default`` classes where no one says how many."""

    def top(c: Config, base: Module) -> Module:
        h = c.size("d_model")
        classes = labels(c) if c.has("num_labels") or c.get("id2label") else default
        head = SentenceHead(
            "classification_head", Linear("dense", h, h, "", True), Linear("out_proj", h, classes, "", True)
        )
        return SentenceClassifier("", base, head)

    return top


HEADS: dict[str, Top] = {
    "Model": bare,
    "ForConditionalGeneration": generation(),
    ALONE: generation(bias=False),
    "ForSequenceClassification": sentence(),
    "ForQuestionAnswering": classifier("qa_outputs", width="d_model", bias=True, classes=2),
}
