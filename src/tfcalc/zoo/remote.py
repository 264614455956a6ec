"""Variants of Llama that transformers itself lacks: their code lies beside their weights and never runs here."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.core.number import ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.nn.attention import Attention
from tfcalc.nn.module import Module
from tfcalc.nn.positions import Rope
from tfcalc.zoo.blocks import decoders, experts
from tfcalc.zoo.blocks.layers import GATED, multi_head


@family(
    "internlm2",
    architecture="InternLM2ForCausalLM",
    heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head("output")},
    like="llama",
    vocab_size=103168,
    bias=True,
)
def internlm2(c: Config) -> Module:
    """InternLM2 (arXiv 2403.17297): one matrix for queries, keys and values, under names of its own."""
    mixer = decoders.attention(c, names=("wqkv", "wo"), bias=c.flag("bias")).replace(name="attention")
    ffn = decoders.gated(c, names=("w1", "w3", "w2")).replace(name="feed_forward")
    layers = decoders.layer(c, mixer, ffn, names=("attention_norm", "ffn_norm"))
    return decoders.decoder(c, layers, names=("model", "tok_embeddings", "norm"))


OF_CHATGLM = tops.lm_head("transformer.output_layer")


@family(
    "chatglm",
    architecture="ChatGLMModel",
    heads={"Model": OF_CHATGLM, "ForConditionalGeneration": OF_CHATGLM},
    aliases={
        "padded_vocab_size": "vocab_size",
        "num_layers": "num_hidden_layers",
        "ffn_hidden_size": "intermediate_size",
        "kv_channels": "head_dim",
        "multi_query_group_num": "num_key_value_heads",
    },
    like="llama",
    vocab_size=65024,
    intermediate_size=13696,
    num_hidden_layers=28,
    num_key_value_heads=1,
    head_dim=128,
    rmsnorm=True,
    post_layer_norm=True,
)
def chatglm(c: Config) -> Module:
    """ChatGLM2 to GLM-4 (arXiv 2406.12793): even the class that is named Model has an output head.

    The first ChatGLM is another model, of the same type.
    """
    if c.has("inner_hidden_size"):
        raise InvalidModel(
            f"{c.path('inner_hidden_size')} is a field of the first ChatGLM", "only ChatGLM2 and later are supported"
        )
    h, a, d, bias = (
        c.size("hidden_size"),
        c.size("num_attention_heads"),
        decoders.head_dim(c),
        c.flag("add_bias_linear"),
    )
    mixer = multi_head(
        Attention,
        "self_attention",
        ("query_key_value", "dense"),
        *(h, a, d),
        groups=decoders.kv_heads(c) if c.flag("multi_query_attention") else a,
        bias=bias or c.flag("add_qkv_bias"),
        output_bias=bias,
        rope=Rope(d),
    )
    ffn = decoders.gated(c, bias=bias, names=("dense_h_to_4h", "dense_4h_to_h"))
    kind = "rmsnorm" if c.flag("rmsnorm") else "layernorm"
    layers = decoders.layer(c, mixer, ffn, norm=kind).replace(name="encoder.layers")
    names = ("transformer", "embedding.word_embeddings", "encoder.final_layernorm")
    whole = decoders.decoder(c, layers, norm=kind, names=names)
    return whole if c.flag("post_layer_norm") else whole.replace(norm=None)


@family("minicpm", architecture="MiniCPMForCausalLM", like="llama", tie_word_embeddings=True, num_experts=0)
def minicpm(c: Config) -> Module:
    """MiniCPM (arXiv 2404.06395): Llama with a tied head and numbers that the stream and its parts are multiplied by.

    Its mixture of experts has as many as the file says.
    """
    some = c.number("num_experts", least=0)
    ffn = experts.mixture(c, experts="num_experts", names=GATED) if some else decoders.gated(c)
    layers = decoders.layer(c, decoders.attention(c, bias=c.flag("attention_bias")), ffn)
    return decoders.decoder(c, layers.replace(scales=True)).replace(scales=True)


@family(
    "qwen",
    architecture="QWenLMHeadModel",
    aliases={"kv_channels": "head_dim"},
    like="llama",
    vocab_size=151936,
    intermediate_size=22016,
    head_dim=128,
    no_bias=True,
)
def qwen(c: Config) -> Module:
    """Qwen (arXiv 2309.16609): ``intermediate_size`` is twice the real width.

    ``no_bias`` leaves queries, keys and values their biases.
    """
    bias = not c.flag("no_bias")
    width = ceil_div(c.size("intermediate_size") - 1, 2)  # half of it, rounded down
    mixer = decoders.attention(c, names=("c_attn", "c_proj"), bias=True, output_bias=bias).replace(name="attn")
    ffn = decoders.gated(c, width=width, bias=bias, names=("w2", "w1", "c_proj"))
    layers = decoders.layer(c, mixer, ffn, names=("ln_1", "ln_2")).replace(name="h")
    return decoders.decoder(c, layers, names=("transformer", "wte", "ln_f"))
