"""T5 and its kin: positions are a bias of the attention's scores."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.families.t5_kit import ALWAYS, HEADS, UNSCALED, attention, depth, generation, norm, plain, relative, seq2seq
from tfcalc.nn.encoder_decoder import EncoderAlone, EncoderDecoder
from tfcalc.nn.local_attention import LocalAttention, LocalStack
from tfcalc.nn.mixture import Router
from tfcalc.nn.model import Decoder
from tfcalc.nn.module import Module
from tfcalc.nn.switch import Networks, Switch

ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "head_dim": "d_kv",
}
LONG_HEADS = {name: HEADS[name] for name in ("Model", "EncoderModel", "ForConditionalGeneration")}


@family(
    "t5",
    heads=HEADS,
    tie_word_embeddings=True,  # forced by __post_init__
)
def t5(c: Config) -> Module:
    """Raffel et al. 2019 (arXiv 1910.10683); 1.1 and Flan-T5 have a gate, and an output matrix of their own.

    transformers 5 ties that matrix all the same, but loads the published one: ``tie_word_embeddings`` decides here.
    """
    return seq2seq(c)


@family("mt5", heads=UNSCALED)
def mt5(c: Config) -> Module:
    """Xue et al. 2020 (arXiv 2010.11934): T5 1.1 with more words."""
    return seq2seq(c)


@family(
    "umt5",
    heads=ALWAYS,
    tie_word_embeddings=True,  # forced by __post_init__
)
def umt5(c: Config) -> Module:
    """Chung et al. 2023 (arXiv 2304.09151): a table of relative positions in each layer."""
    return seq2seq(c, everywhere=True)


@family("longt5", heads=LONG_HEADS)
def longt5(c: Config) -> Module:
    """Guo et al. 2021 (arXiv 2112.07916): the encoder sees what is near, and summaries of blocks of the rest.

    A block is the token itself and as many as ``local_radius`` says.
    """
    far = c.word("encoder_attention_type", ("local", "transient-global")) != "local"
    name = "TransientGlobalSelfAttention" if far else "LocalSelfAttention"
    mixer = attention(c, name, LocalAttention, causal=False, block=c.number("local_radius") + 1)
    if far:
        normed = norm(c, "global_input_layer_norm")
        mixer = mixer.but(summarised=c.number("global_block_size"), summary_norm=normed)
    whole = seq2seq(c, mixer=mixer)
    assert isinstance(whole, EncoderDecoder | EncoderAlone)
    assert isinstance(whole.encoder, Decoder)
    table = f"block[0].layer.0.{name}.global_relative_attention_bias"
    everywhere = relative(c, table) if far else None
    own = whole.encoder.to(LocalStack, near=whole.encoder.relative, far=everywhere, relative=None)
    return whole.but(encoder=own)


@family("switch_transformers", heads=UNSCALED | {"ForConditionalGeneration": generation(scaled=True)})
def switch_transformers(c: Config) -> Module:
    """Fedus et al. 2021 (arXiv 2101.03961): every so many layers, one of many networks for each token."""
    return seq2seq(c, _sometimes_experts, tied=c.flag("tie_word_embeddings"))


def _sometimes_experts(c: Config, side: str) -> list[Module]:
    """The second layer has experts, and each that is ``step`` after it."""
    dense, h, count = plain("mlp", c, c.word("dense_act_fn")), c.size("d_model"), c.size("num_experts")
    experts = dense.to(Networks, name="experts", count=count)
    router = Router("router.classifier", h, count, bias=c.flag("router_bias"), logits="copies", format="float32")
    switch = Switch("mlp", router.but(result="stream"), experts, bool(c.get("router_jitter_noise")))
    layers, some = c.number(depth(c, side)), c.number(f"num_sparse_{side}_layers", least=0)
    step = (
        c.number(f"{side}_sparse_step", least=0) if c.has(f"{side}_sparse_step") else layers // some if some else layers
    )
    return [switch if step == 1 or (step > 0 and place % step == 1) else dense for place in range(layers)]
