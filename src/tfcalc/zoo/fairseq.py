"""OPT, XGLM, BioGPT, TrOCR: GPT-likes with the layers of fairseq, whose feed-forward maps are in the layer itself."""

from __future__ import annotations

from typing import Any

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.tops import bare, classifier, lm_head
from tfcalc.core.number import Num
from tfcalc.nn.attention import OWN_SOFTMAX, CrossAttention, EagerCode
from tfcalc.nn.basic import Embedding, Linear, Norm
from tfcalc.nn.embeddings import PLACES, TOKENS, Positions, Sines
from tfcalc.nn.encoder_decoder import Alone
from tfcalc.nn.feed_forward import FeedForward, InLayer
from tfcalc.nn.layers import PostNorm, PreNorm
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.zoo.blocks.gpt import GPT_TOPS, normed, split_attention
from tfcalc.zoo.blocks.layers import LAYERS

NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
NORMS = ("self_attn_layer_norm", "final_layer_norm")
SPARE = 2
"""Rows of positions: fairseq counted from the padding word's index."""


def mixer(c: Config, name: str, *, dropout: str = "attention_dropout", **more: Any) -> Module:
    """Multi-head attention under the names that fairseq gave its projections."""
    return split_attention(c, name, NAMES, dropout=dropout, **more)


def reader(c: Config, key_width: Num | None = None) -> Module:
    """Attention to an encoder, whose vectors may have another width."""
    return mixer(c, "encoder_attn", of=CrossAttention, source=key_width, eager=OWN_SOFTMAX)


def network(
    c: Config,
    width: str,
    kind: str,
    *,
    of: type[FeedForward] = FeedForward,
    dropped: str = "activation_dropout",
    bias: bool = True,
) -> FeedForward:
    """Return the network of two maps with an activation between them, by the fields of its width and kind."""
    h, f, drops = c.size("hidden_size"), c.size(width), bool(dropped and c.get(dropped))
    return of("(ffn)", Linear("fc1", h, f, "1", bias), Linear("fc2", f, h, "2", bias), c.word(kind), drops)


def stack(
    c: Config, *sublayers: Module, dropped: str = "dropout", form: str = "layernorm", pre_norm: bool = True
) -> Stack:
    """Equal layers: self-attention, perhaps attention to an encoder, and a network, each with a norm."""
    first, last = NORMS
    names = (first, *(f"{each.name}_layer_norm" for each in sublayers[1:-1]), last)
    norms, drops = tuple(Norm(name, form, c.size("hidden_size")) for name in names), bool(c.get(dropped))
    layer = (
        PreNorm("layers", sublayers, norms, drops)
        if pre_norm
        else PostNorm("layers", sublayers, norms, drops, in_line=False)
    )
    return Stack("layers", (layer,) * c.number(LAYERS), c.size(LAYERS))


def words(c: Config) -> Embedding:
    """The vectors of the vocabulary, which are multiplied by a number."""
    return Embedding("embed_tokens", c.size("vocab_size"), c.size("hidden_size"), scales=True)


def learned(c: Config, indices: str) -> Positions:
    """A trained vector for each position."""
    return Positions("embed_positions", c.size("max_position_embeddings") + SPARE, c.size("hidden_size"), indices)


def fixed(c: Config, indices: str = PLACES) -> Sines:
    """Sines and cosines, which are made anew in each process: no checkpoint holds them."""
    c.size("max_position_embeddings")  # a size, though nothing is stored for it
    return Sines("embed_positions", c.size("hidden_size"), indices=indices)


def word_width(c: Config) -> Num:
    """The width of the word vectors: that of the model, unless they have one of their own."""
    given = c.optional("word_embed_proj_dim")
    return c.size("hidden_size") if given is None else given


def opt_decoder(c: Config) -> Decoder:
    """Word vectors are mapped to the model's width and back, where they have another."""
    h, e, bias = c.size("hidden_size"), word_width(c), c.flag("enable_bias")
    form = "layernorm" if c.flag("layer_norm_elementwise_affine") else "layernorm-plain"
    narrower = c.get("word_embed_proj_dim") is not None and c.number("word_embed_proj_dim") != c.number("hidden_size")
    maps = (Linear("project_in", e, h), Linear("project_out", h, e)) if narrower else ()
    pre_norm = c.flag("do_layer_norm_before")
    ffn = network(c, "ffn_dim", "activation_function", of=InLayer, dropped="", bias=bias)
    layers = stack(c, mixer(c, "self_attn", bias=bias), ffn, form=form, pre_norm=pre_norm)
    last = Norm("final_layer_norm", form, h) if pre_norm and not c.flag("_remove_final_layer_norm") else None
    table = Embedding("embed_tokens", c.size("vocab_size"), e)
    return Decoder("decoder", table, layers, last, added=(learned(c, TOKENS),), maps=maps)


@family(
    "opt",
    heads={
        "Model": bare,
        "ForCausalLM": lm_head(width=word_width),
        "ForSequenceClassification": classifier("score", width=word_width),
        "ForQuestionAnswering": classifier("qa_outputs", width=word_width, bias=True, classes=2),
    },
)
def opt(c: Config) -> Module:
    """Zhang et al. 2022 (arXiv 2205.01068): two rows of positions to spare.

    OPT-350m has its norms after the sub-layers, so that none follows the last layer, and narrower word vectors.
    """
    return Alone("model", opt_decoder(c))


@family("xglm", heads={"Model": bare, "ForCausalLM": lm_head()})
def xglm(c: Config) -> Module:
    """Lin et al. 2021 (arXiv 2112.10668): fixed positions."""
    readers = (reader(c),) if c.flag("add_cross_attention") else ()
    ffn = network(c, "ffn_dim", "activation_function")
    layers = stack(c, mixer(c, "self_attn", eager=EagerCode(softmax="own", mask="limited")), *readers, ffn)
    last, drops = normed(c, "layer_norm"), bool(c.get("dropout"))
    return Decoder("model", words(c), layers, last, added=(fixed(c),), dropped=drops)


@family("biogpt", heads=GPT_TOPS | {"ForCausalLM": lm_head("output_projection")})
def biogpt(c: Config) -> Module:
    """Luo et al. 2022 (arXiv 2210.10341): GPT-2's sizes in the layers of fairseq; two rows of positions to spare."""
    looks = mixer(c, "self_attn", dropout="attention_probs_dropout_prob", eager=OWN_SOFTMAX, given_ones=True)
    ffn = network(c, "intermediate_size", "hidden_act", of=InLayer)
    layers = stack(c, looks, ffn, dropped="hidden_dropout_prob")
    last, drops = normed(c, "layer_norm"), bool(c.get("hidden_dropout_prob"))
    return Decoder("biogpt", words(c), layers, last, added=(learned(c, PLACES),), dropped=drops)


@family("trocr", heads={"ForCausalLM": lm_head("output_projection", shifted=False, upcasts=False)})
def trocr(c: Config) -> Module:
    """Li et al. 2021 (arXiv 2109.10282): the decoder that reads an image's encoder, whatever the config says of it."""
    added = learned(c, TOKENS) if c.flag("use_learned_position_embeddings") else fixed(c, TOKENS)
    embedding_norm = normed(c, "layernorm_embedding") if c.flag("layernorm_embedding") else None
    sublayers = mixer(c, "self_attn", eager=OWN_SOFTMAX), reader(c, c.optional("cross_attention_hidden_size"))
    layers = stack(c, *sublayers, network(c, "decoder_ffn_dim", "activation_function"), pre_norm=False)
    drops = bool(c.get("dropout"))
    table, tables = words(c), (added,)
    return Alone("model", Decoder("decoder", table, layers, None, added=tables, normed=embedding_norm, dropped=drops))
