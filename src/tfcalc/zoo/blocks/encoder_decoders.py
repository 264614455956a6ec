"""Parts that BART and its variants are composed of: an encoder and a decoder of one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, bare, classifier, labels
from tfcalc.nn.attention import OWN_SOFTMAX, Attention, CrossAttention
from tfcalc.nn.basic import Embedding, Linear, Norm, buffer
from tfcalc.nn.embeddings import PLACES, TOKENS, Positions, Sines
from tfcalc.nn.encoder_decoder import Alone, EncoderDecoder, EncoderStack, WithBias
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.heads import Headed, SentenceHead
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.model import Decoder, ModelWithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.zoo.blocks import layers as layer_blocks
from tfcalc.zoo.blocks.encoders import MASKED

ALONE = "ForCausalLM"
"""The head that goes with the decoder by itself."""
NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
Places = Callable[[Config, str], Module]
"""Makes a stack's table of positions, of the config and the stack's name."""
Layers = Callable[[Config, str], Stack]
"""Makes a stack's layers, likewise."""


def learned(
    spare: int = 0, indices: str = PLACES, of_encoder: str = "", rows: str = "max_position_embeddings"
) -> Places:
    """A trained table of positions. BART's has two ``spare`` rows: fairseq counted from the padding word's index.

    ``rows`` is the field with the number of positions (``{}`` stands for the stack's name).
    """

    def make(c: Config, side: str) -> Module:
        count, numbers = c.size(rows.format(side)) + spare, of_encoder if side == "encoder" else indices
        return Positions("embed_positions", count, c.size("d_model"), numbers or indices)

    return make


BART_PLACES = learned(2, of_encoder=TOKENS)


def sines(*, stored: bool) -> Places:
    """Fixed positions, which may be parameters that are not trained."""

    def make(c: Config, side: str) -> Module:
        rows = c.size("max_position_embeddings")
        return Sines("embed_positions", c.size("d_model"), rows if stored else None)

    return make


def attention(
    c: Config,
    side: str,
    name: str,
    of: type[Attention] = Attention,
    *,
    bias: bool = True,
    names: Sequence[str] = NAMES,
    **more: Any,
) -> Attention:
    """Multi-head attention under the names that fairseq gave its projections, if not by others."""
    heads = f"{side}_attention_heads"
    h, a, d = c.size("d_model"), c.size(heads), c.quotient("d_model", heads)
    drops = bool(c.get("attention_dropout"))
    return layer_blocks.multi_head(of, name, names, h, a, d, bias=bias, dropout=drops, eager=OWN_SOFTMAX, **more)


def network(c: Config, side: str, name: str = "(ffn)", *, as_weights: bool = False) -> FeedForward:
    """Two maps, which are parts of the layer itself, unless they have a name."""
    h, f, kind = c.size("d_model"), c.size(f"{side}_ffn_dim"), c.word("activation_function")
    drops = bool(c.get("activation_dropout"))
    return layer_blocks.network(name, ("fc1", "fc2"), h, f, kind, dropout=drops, as_weights=as_weights)


def norm(c: Config, name: str) -> Norm:
    """A LayerNorm of the model's width."""
    return Norm(name, "layernorm", c.size("d_model"))


def mixers(
    c: Config,
    side: str,
    *,
    reader: str = "encoder_attn",
    ones: bool = True,
    mixer: Callable[..., Attention] = attention,
    **more: Any,
) -> list[Module]:
    """Self-attention; in a decoder also attention to the encoder, which a decoder by itself holds and never runs.

    Where the program gives a causal stack a mask of ``ones``, attention is told.
    """
    causal = side == "decoder"
    sublayers: list[Module] = [mixer(c, side, "self_attn", causal=causal, given_ones=causal and ones, **more)]
    if causal:
        sublayers.append(mixer(c, side, reader, CrossAttention, reads=c.head != ALONE, **more))
    return sublayers


def layer(
    c: Config, sublayers: Sequence[Module], last: str = "final_layer_norm", *, pre_norm: bool, inner: bool = False
) -> PreNorm:
    """A layer of these sub-layers: each has a norm by its own name, and the ``last``, a network, by another.

    What the network makes may be dropped as often as what is inside it (``inner``).
    """
    norms = tuple(norm(c, name) for name in (*(f"{sub.name}_layer_norm" for sub in sublayers[:-1]), last))
    drops = {sub.name: bool(c.get("dropout")) for sub in sublayers}
    if inner:
        drops[sublayers[-1].name] = bool(c.get("activation_dropout"))
    some, never = any(drops.values()), tuple(name for name, dropped in drops.items() if not dropped)
    if pre_norm:
        return PreNorm("layers", tuple(sublayers), norms, some, undropped=never)
    return PostNorm("layers", tuple(sublayers), norms, some, undropped=never, in_line=False)


def stack(c: Config, side: str, layers: Sequence[Module] | Module) -> Stack:
    """Layers one upon another, or as many equal ones as the field ``{side}_layers`` says."""
    return layer_blocks.stack(c, layers, f"{side}_layers")


def equal_layers(c: Config, side: str, *, pre_norm: bool, mixer: Callable[..., Attention] = attention) -> Stack:
    """BART's layers."""
    return stack(c, side, layer(c, [*mixers(c, side, mixer=mixer), network(c, side)], pre_norm=pre_norm))


def seq2seq(
    c: Config,
    places: Places,
    *,
    normed: bool = False,
    pre_norm: bool = False,
    rows: str = "vocab_size",
    share: bool = True,
    scales: bool = True,
    layers: Layers | None = None,
    last: str = "",
    reader: Callable[..., EncoderStack] = EncoderStack,
) -> Module:
    """Shared table, encoder and decoder; as a ``ForCausalLM`` only the decoder, whose table is its own.

    The embedding is ``normed``, or there are norms before sub-layers (``pre_norm``) and behind the last one, or both.
    ``rows`` is the field with the length of the decoder's own table, if it has one: where they do not ``share`` it, or
    it is not tied. ``layers`` makes those of each stack, ``reader`` the encoder; a ``last`` norm goes by this name.
    """
    alone, tied, h = c.head == ALONE, share and c.flag("tie_word_embeddings"), c.size("d_model")
    last = last or ("layer_norm" if pre_norm else "")

    def half(side: str, of: Callable[..., Decoder], table: Embedding) -> Decoder:
        first, behind = (norm(c, "layernorm_embedding") if normed else None), norm(c, last) if last else None
        made = layers(c, side) if layers is not None else equal_layers(c, side, pre_norm=pre_norm)
        return of(side, table, made, behind, added=(places(c, side),), dropped=bool(c.get("dropout")), normed=first)

    own = "shared" if tied and not alone else None
    decoder = half("decoder", Decoder, Embedding("embed_tokens", c.size(rows), h, own, scales))
    if alone:
        return Alone("model", decoder)
    read = Embedding("embed_tokens", c.size("vocab_size"), h, "shared" if tied else None, scales)
    encoder = half("encoder", reader, read)
    table = Embedding("shared", c.size("vocab_size"), h) if share else None
    return EncoderDecoder("model", table, encoder, decoder)


def logits(c: Config, rows: str = "vocab_size") -> Linear:
    """Linear map to logits, by the shared table or a matrix of its own."""
    return tops.logits("lm_head", c.size("d_model"), c.size(rows), tied=c.flag("tie_word_embeddings"))


def generation(*, rows: str = "vocab_size", bias: bool = True) -> Top:
    """Logits, and a bias on them that is stored but not trained."""

    def top(c: Config, base: Module) -> Module:
        head = logits(c, rows)
        if not bias:
            return ModelWithHead("", base, head, **MASKED)
        held = buffer("final_logits_bias", c.size(rows))
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
        return Headed("", base, head)

    return top


HEADS: dict[str, Top] = {
    "Model": bare,
    "ForConditionalGeneration": generation(),
    ALONE: generation(bias=False),
    "ForSequenceClassification": sentence(),
    "ForQuestionAnswering": classifier("qa_outputs", width="d_model", bias=True, classes=2),
}
