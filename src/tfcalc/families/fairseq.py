"""OPT, XGLM, BioGPT, TrOCR: GPT-likes with the layers of fairseq, whose feed-forward maps stand in the layer itself."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import bare, classifier, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.families.gpt2 import (
    GPT_HEADS,
    attention,
    feed_forward,
    final,
    fixed_positions,
    layers,
    positions,
    transformer,
    words,
)
from tfcalc.families.images import drops
from tfcalc.leaves import embedding, linear
from tfcalc.workload import Workload

NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")
NORMS = ("self_attn_layer_norm", "final_layer_norm")


def fairseq_layers(
    c: Config,
    run: Workload,
    width: Num,
    activation: str,
    *,
    bias: bool = True,
    kind: str = "layernorm",
    cross: bool = False,
    key_width: Num | None = None,
    ends_with_sum: bool,
) -> Component:
    """Self-attention, attention to an encoder (``cross``, whose vectors are ``key_width`` wide), two maps."""
    parts = [attention(c, run, "self_attn", NAMES, bias=bias)]
    if cross:
        parts.append(attention(c, run, "encoder_attn", NAMES, key_width=key_width, cross=True))
        parts.append(final(c, run, "encoder_attn_layer_norm"))
    parts.append(feed_forward(c, run, "(ffn)", ("fc1", "fc2"), width, activation, bias=bias))
    return layers(c, run, "layers", *parts, names=NORMS, kind=kind, ends_with_sum=ends_with_sum)


def word_width(c: Config) -> Num:
    """The width of the word vectors: that of the model, unless they have one of their own."""
    given = c.optional("word_embed_proj_dim")
    return c.size("hidden_size") if given is None else given


def opt_decoder(c: Config, run: Workload) -> Iterator[Component]:
    """Word vectors are mapped to the model's width and back, where they have another."""
    h, e, tokens, bias = c.size("hidden_size"), word_width(c), run.target.tokens, c.flag("enable_bias")
    kind = "layernorm" if c.flag("layer_norm_elementwise_affine") else "layernorm-plain"
    maps = c.get("word_embed_proj_dim") is not None and c.number("word_embed_proj_dim") != c.number("hidden_size")
    yield embedding("embed_tokens", c.size("vocab_size"), e, tokens)
    yield positions(c, run, "embed_positions", beside=2)
    if maps:
        yield linear("project_in", e, h, tokens, bias=False)
    sums = c.flag("do_layer_norm_before") and not drops(c, run, "dropout")
    width, act = c.size("ffn_dim"), c.word("activation_function")
    yield fairseq_layers(c, run, width, act, bias=bias, kind=kind, ends_with_sum=sums)
    if c.flag("do_layer_norm_before") and not c.flag("_remove_final_layer_norm"):
        yield final(c, run, "final_layer_norm", kind)
    if maps:
        yield linear("project_out", h, e, tokens, bias=False)


@family(
    "opt",
    architecture="OPTForCausalLM",
    heads={
        "Model": bare,
        "ForCausalLM": lm_head(width=word_width),
        "ForSequenceClassification": classifier("score", width=word_width),
        "ForQuestionAnswering": classifier("qa_outputs", width=word_width, bias=True, classes=2),
    },
)
def opt(c: Config, run: Workload) -> Component:
    """Zhang et al. 2022 (arXiv 2205.01068): two rows of positions to spare.

    OPT-350m has its norms after the sub-layers, so that none follows the last layer, and narrower word vectors.
    """
    return transformer(transformer(*opt_decoder(c, run), name="decoder"), name="model")


@family(
    "xglm",
    architecture="XGLMForCausalLM",
    heads={"Model": bare, "ForCausalLM": lm_head()},
    aliases={
        "d_model": "hidden_size",
        "attention_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
    },
)
def xglm(c: Config, run: Workload) -> Component:
    """Lin et al. 2021 (arXiv 2112.10668): fixed positions."""
    cross = c.flag("add_cross_attention")
    sums, width = not drops(c, run, "dropout"), c.size("ffn_dim")
    stack = fairseq_layers(c, run, width, c.word("activation_function"), cross=cross, ends_with_sum=sums)
    tables = words(c, run, "embed_tokens"), fixed_positions(c, run, "embed_positions", beside=2)
    return transformer(*tables, stack, final(c, run, "layer_norm"), name="model")


@family("biogpt", architecture="BioGptForCausalLM", heads=GPT_HEADS | {"ForCausalLM": lm_head("output_projection")})
def biogpt(c: Config, run: Workload) -> Component:
    """Luo et al. 2022 (arXiv 2210.10341): GPT-2's sizes in the layers of fairseq; two rows of positions to spare."""
    tables = words(c, run, "embed_tokens"), positions(c, run, "embed_positions", beside=2)
    width, sums = c.size("intermediate_size"), not drops(c, run)
    stack = fairseq_layers(c, run, width, c.word("hidden_act"), ends_with_sum=sums)
    return transformer(*tables, stack, final(c, run, "layer_norm"), name="biogpt")


@family(
    "trocr",
    architecture="TrOCRForCausalLM",
    heads={"ForCausalLM": lm_head("output_projection")},
    aliases={
        "d_model": "hidden_size",
        "decoder_attention_heads": "num_attention_heads",
        "decoder_layers": "num_hidden_layers",
    },
)
def trocr(c: Config, run: Workload) -> Component:
    """Li et al. 2021 (arXiv 2109.10282): the decoder that reads an image's encoder, whatever the config says of it."""
    learned = c.flag("use_learned_position_embeddings")
    parts = [
        words(c, run, "embed_tokens"),
        (positions if learned else fixed_positions)(c, run, "embed_positions", beside=2),
    ]
    if c.flag("layernorm_embedding"):
        parts.append(final(c, run, "layernorm_embedding"))
    width, memory = c.size("decoder_ffn_dim"), c.optional("cross_attention_hidden_size")
    act = c.word("activation_function")
    parts.append(fairseq_layers(c, run, width, act, cross=True, key_width=memory, ends_with_sum=False))
    return transformer(transformer(*parts, name="decoder"), name="model")
