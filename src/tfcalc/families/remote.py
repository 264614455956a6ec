"""Llama's kin that transformers itself does not have: their code lies beside their weights, and is never run here."""

from __future__ import annotations

from tfcalc.blocks import GATED, Attention, FeedForward
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM, lm_head
from tfcalc.core.component import Component
from tfcalc.core.number import ceil_div
from tfcalc.errors import InvalidModel
from tfcalc.families.llama import attention, decoder, gated, head_dim, kv_heads, qwen2, uniform
from tfcalc.families.mixtral import mixture
from tfcalc.workload import Workload


@family("baichuan", architecture="BaichuanForCausalLM", heads=CAUSAL_LM, like="llama", vocab_size=64000)
def baichuan(c: Config, run: Workload) -> Component:
    """Baichuan 2 (arXiv 2309.10305): Llama with one matrix for queries, keys and values."""
    return decoder(c, run, uniform(c, run, attention(c, run, names=("W_pack", "o_proj")), gated(c, run)))


@family("internlm", architecture="InternLMForCausalLM", heads=CAUSAL_LM, like="llama", vocab_size=103168, bias=True)
def internlm(c: Config, run: Workload) -> Component:
    """InternLM (its modeling_internlm.py): ``bias`` is that of attention only."""
    return decoder(c, run, uniform(c, run, attention(c, run, bias=c.flag("bias")), gated(c, run)))


@family(
    "internlm2",
    architecture="InternLM2ForCausalLM",
    heads=CAUSAL_LM | {"ForCausalLM": lm_head("output")},
    like="llama",
    vocab_size=103168,
    bias=True,
)
def internlm2(c: Config, run: Workload) -> Component:
    """InternLM2 (arXiv 2403.17297): one matrix for queries, keys and values, under names of its own."""
    mixer = attention(c, run, name="attention", names=("wqkv", "wo"), bias=c.flag("bias"))
    ffn = gated(c, run, names=("w1", "w3", "w2"))._replace(name="feed_forward")
    layers = uniform(c, run, mixer, ffn, names=("attention_norm", "ffn_norm"))
    return decoder(c, run, layers, names=("model", "tok_embeddings", "norm"))


OF_CHATGLM = lm_head("transformer.output_layer")


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
def chatglm(c: Config, run: Workload) -> Component:
    """ChatGLM2 to GLM-4 (arXiv 2406.12793): even the class that is named Model has an output head.

    The first ChatGLM is another model, of the same type.
    """
    if c.has("inner_hidden_size"):
        raise InvalidModel(
            f"{c.path('inner_hidden_size')} is a field of the first ChatGLM", "only ChatGLM2 and later are supported"
        )
    h, a, d, bias = c.size("hidden_size"), c.size("num_attention_heads"), head_dim(c), c.flag("add_bias_linear")
    groups = kv_heads(c) if c.flag("multi_query_attention") else a
    any_bias = bias or c.flag("add_qkv_bias")
    block = Attention(h, a, groups, d, d, bias=any_bias, output_bias=bias, names=("query_key_value", "dense"), rotary=d)
    mixer = block("self_attention", run.target, run.target, run, causal=True)
    ffn = gated(c, run, bias=bias, names=("dense_h_to_4h", "dense_4h_to_h"))
    kind = "rmsnorm" if c.flag("rmsnorm") else "layernorm"
    layers = uniform(c, run, mixer, ffn, norm=kind)._replace(name="encoder.layers")
    names = ("transformer", "embedding.word_embeddings", "encoder.final_layernorm")
    return decoder(c, run, layers, final=kind if c.flag("post_layer_norm") else "", names=names)


@family("mimo", architecture="MiMoForCausalLM", heads=CAUSAL_LM, like="qwen2")
def mimo(c: Config, run: Workload) -> Component:
    """MiMo (arXiv 2505.07608): Qwen2. The layer that predicts a further token is a module apart, and not counted."""
    return qwen2(c, run)


@family(
    "minicpm", architecture="MiniCPMForCausalLM", heads=CAUSAL_LM, like="llama", tie_word_embeddings=True, num_experts=0
)
def minicpm(c: Config, run: Workload) -> Component:
    """MiniCPM (arXiv 2404.06395): Llama with a tied head; its mixture of experts has as many as the file says."""
    mixer = attention(c, run, bias=c.flag("attention_bias"))
    if not c.number("num_experts", least=0):
        return decoder(c, run, uniform(c, run, mixer, gated(c, run)))
    return decoder(c, run, uniform(c, run, mixer, mixture(c, run, experts="num_experts", names=GATED)))


@family(
    "orion",
    architecture="OrionForCausalLM",
    heads=CAUSAL_LM,
    like="llama",
    vocab_size=84608,
    hidden_size=5120,
    intermediate_size=15360,
)
def orion(c: Config, run: Workload) -> Component:
    """Orion-14B (arXiv 2401.12246): Llama with LayerNorms, biases and all."""
    mixer, kind = attention(c, run, bias=c.flag("attention_bias")), "layernorm"
    return decoder(c, run, uniform(c, run, mixer, gated(c, run), norm=kind), final=kind)


@family(
    "qwen",
    architecture="QWenLMHeadModel",
    heads=CAUSAL_LM,
    aliases={"kv_channels": "head_dim"},
    like="llama",
    vocab_size=151936,
    intermediate_size=22016,
    head_dim=128,
    no_bias=True,
)
def qwen(c: Config, run: Workload) -> Component:
    """Qwen (arXiv 2309.16609): ``intermediate_size`` is twice the real width.

    ``no_bias`` leaves queries, keys and values their biases.
    """
    bias, width = not c.flag("no_bias"), ceil_div(c.size("intermediate_size") - 1, 2)  # half of it, rounded down
    mixer = attention(c, run, name="attn", names=("c_attn", "c_proj"), bias=True, output_bias=bias)
    block = FeedForward(
        c.size("hidden_size"),
        width,
        c.word("hidden_act"),
        bias=bias,
        names=("w2", "w1", "c_proj"),
        gated=True,
    )
    layers = uniform(c, run, mixer, block("mlp", run.target, run), names=("ln_1", "ln_2"))._replace(name="h")
    return decoder(c, run, layers, names=("transformer", "wte", "ln_f"))
