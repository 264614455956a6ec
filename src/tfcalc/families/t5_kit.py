"""What T5 is composed of: positions are a bias of the attention's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.tops import Top, bare, classifier, logits
from tfcalc.families import layers, seq2seq_kit
from tfcalc.families.bert_tops import MASKED
from tfcalc.families.layers import gated, multi_head, stack
from tfcalc.nn.attention import OWN_SOFTMAX, Attention
from tfcalc.nn.basic import Embedding, Norm
from tfcalc.nn.cross_attention import CrossAttention
from tfcalc.nn.encoder_decoder import EncoderAlone, EncoderDecoder, EncoderStack, Open
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.relative import RelativeBias
from tfcalc.nn.stack import around

MakeNetworks = Callable[[Config, str], Sequence[Module]]
"""Makes the networks of a stack's layers, of the config and the stack's name."""
NAMES = ("q", "k", "v", "o")
ENCODER_ONLY = ("EncoderModel", "ForTokenClassification")


def drops(c: Config) -> bool:
    """Whether embeddings, scores, networks and outputs are dropped in part."""
    return bool(c.get("dropout_rate"))


def network(c: Config) -> FeedForward | GatedFeedForward:
    """The feed-forward network; ``feed_forward_proj`` says its activation, and with ``gated-`` before it its gate."""
    gate, _, kind = c.word("feed_forward_proj").rpartition("-")
    gates = c.flag("is_gated_act") if c.has("is_gated_act") else gate == "gated"
    kind = "gelu_new" if (gate, kind) == ("gated", "gelu") else kind
    if not gates:
        return plain("DenseReluDense", c, kind)
    h, f, drop = c.size("d_model"), c.size("d_ff"), drops(c)
    return gated("DenseReluDense", ("wi_0", "wi_1", "wo"), h, f, kind, dropout=drop, as_weights=True)


def plain(name: str, c: Config, kind: str) -> FeedForward:
    """A network without a gate."""
    h, f, drop = c.size("d_model"), c.size("d_ff"), drops(c)
    return layers.network(name, ("wi", "wo"), h, f, kind, bias=False, dropout=drop, as_weights=True)


def attention(c: Config, name: str, of: type[Attention] = Attention, **more: Any) -> Attention:
    """Without biases; the heads together need not be as wide as the model."""
    h, a, d = c.size("d_model"), c.size("num_heads"), c.size("d_kv")
    return multi_head(of, name, NAMES, h, a, d, dropout=drops(c), eager=OWN_SOFTMAX, **more)


def norm(c: Config, name: str) -> Norm:
    """T5LayerNorm, of the model's width."""
    return Norm(name, "rmsnorm", c.size("d_model"), "t5")


def relative(c: Config, name: str = "relative_attention_bias") -> RelativeBias:
    """What is added to a score, by head and by the distance of the two tokens, in buckets."""
    return RelativeBias(name, c.size("relative_attention_num_buckets"), c.size("num_heads"))


def layer(c: Config, *subs: Module) -> PreNorm:
    """Each sub-layer has a norm before it."""
    named = tuple(each.but(name=f"layer.{place}.{each.name}") for place, each in enumerate(subs))
    return PreNorm("block", named, tuple(norm(c, f"layer.{place}.layer_norm") for place in range(len(subs))), drops(c))


def half(
    c: Config,
    side: str,
    of: type[Decoder],
    mixers: Sequence[Attention],
    networks: MakeNetworks,
    *,
    everywhere: bool = False,
    tied: bool = True,
    table: str = "SelfAttention",
) -> Decoder:
    """One of the two stacks.

    All layers share the first one's ``table`` of distances, unless they have one each (``everywhere``).
    """
    made = stack(c, around(lambda ffn: layer(c, *mixers, ffn), networks(c, side)), depth(c, side))
    bias = None if everywhere else relative(c, f"block[0].layer.0.{table}.relative_attention_bias")
    words = Embedding("embed_tokens", c.size("vocab_size"), c.size("d_model"), "shared" if tied else None)
    last = norm(c, "final_layer_norm")
    return of(side, words, made, last, dropped=drops(c), relative=bias, drops_output=drops(c))


def depth(c: Config, side: str) -> str:
    """The field with the number of layers: the decoder's are as many as the encoder's unless told otherwise."""
    return "num_layers" if side == "encoder" or c.get("num_decoder_layers") is None else "num_decoder_layers"


def equal_networks(c: Config, side: str) -> list[Module]:
    """One for each layer."""
    return [network(c)] * c.number(depth(c, side))


def seq2seq(
    c: Config,
    networks: MakeNetworks = equal_networks,
    *,
    everywhere: bool = False,
    tied: bool = True,
    mixer: Attention | None = None,
) -> Module:
    """Shared table of words, encoder, and decoder where the head needs one.

    ``networks`` makes those of a stack's layers. The encoder may have a ``mixer`` of its own. ``tied`` tables of words
    are one.
    """
    own = relative(c) if everywhere else None
    table = Embedding("shared", c.size("vocab_size"), c.size("d_model"))
    looks = attention(c, "SelfAttention", causal=False, table=own) if mixer is None else mixer
    encoder = half(c, "encoder", EncoderStack, [looks], networks, everywhere=everywhere, tied=tied, table=looks.name)
    if c.head in ENCODER_ONLY:
        return EncoderAlone("transformer", table, encoder)
    reader = attention(c, "EncDecAttention", CrossAttention, adds_zeros=everywhere)
    mixers = attention(c, "SelfAttention", table=own), reader
    decoder = half(c, "decoder", Decoder, mixers, networks, everywhere=everywhere, tied=tied)
    return EncoderDecoder("transformer", table, encoder, decoder)


def generation(*, scaled: bool, always: bool = False) -> Top:
    """Logits by the table of words, or (T5 1.1 and later) by a matrix of their own.

    They are made of a multiple: where the config says so, or the table of words makes them, or ``always``.
    """

    def top(c: Config, base: Module) -> Module:
        tied, given = c.flag("tie_word_embeddings"), c.get("scale_decoder_outputs")
        head = logits("lm_head", c.size("d_model"), c.size("vocab_size"), tied=tied)
        times = always or (scaled and bool(tied if given is None else given))
        return Open("", base, head, scaled=times, **MASKED)

    return top


def spans(c: Config, base: Module) -> Module:
    """Where the answer begins and ends."""
    made = classifier("qa_outputs", width="d_model", bias=True)(c, base)
    return Open("", base, made.head)  # type: ignore[attr-defined]  # it is one with a head


UNSCALED: dict[str, Top] = {
    "Model": bare,
    "EncoderModel": bare,
    "ForConditionalGeneration": generation(scaled=False),
    "ForSequenceClassification": seq2seq_kit.sentence(),
    "ForTokenClassification": classifier("classifier", width="d_model", bias=True),
    "ForQuestionAnswering": spans,
}
ALWAYS = UNSCALED | {"ForConditionalGeneration": generation(scaled=True, always=True)}
HEADS = UNSCALED | {"ForConditionalGeneration": generation(scaled=True)}
