"""Phi and StarCoder2: GPT-likes with the attention of Llama, and biases throughout."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.configs.heads import CAUSAL_LM, lm_head
from tfcalc.core.component import Component
from tfcalc.families.gpt2 import feed_forward, final, layers, transformer, words
from tfcalc.families.gpt_neox import qk_norms
from tfcalc.families.images import drops
from tfcalc.families.llama import attention, decoder, kv_heads, uniform
from tfcalc.families.windows import by_window, windows
from tfcalc.workload import Workload


@family(
    "phi",
    architecture="PhiForCausalLM",
    heads=CAUSAL_LM | {"ForCausalLM": lm_head(bias=True)},
    partial_rotary_factor=0.5,  # by __post_init__
)
def phi(c: Config, run: Workload) -> Component:
    """Phi-1 to Phi-2 (arXiv 2306.11644, 2309.05463): parallel sub-layers under one norm; a bias even on the logits."""
    names = ("q_proj", "k_proj", "v_proj", "dense")
    mixer = attention(c, run, names=names, bias=True, within=qk_norms(c, run, kv_heads(c)))
    mlp = feed_forward(c, run, "mlp", ("fc1", "fc2"), c.size("intermediate_size"), c.word("hidden_act"))
    sums = not drops(c, run, "resid_pdrop")
    stack = layers(c, run, "layers", mixer, mlp, names=("input_layernorm",), ends_with_sum=sums)
    return transformer(words(c, run, "embed_tokens"), stack, final(c, run, "final_layernorm"), name="model")


@family("starcoder2", architecture="Starcoder2ForCausalLM", heads=CAUSAL_LM)
def starcoder2(c: Config, run: Workload) -> Component:
    """Lozhkov et al. 2024 (arXiv 2402.19173): grouped heads, but GPT-2's feed-forward network and norms."""
    bias, width = c.flag("use_bias"), c.size("intermediate_size")
    mlp = feed_forward(c, run, "mlp", ("c_fc", "c_proj"), width, c.word("hidden_act"), bias=bias)
    sums = not drops(c, run, "residual_dropout")

    def one(window: int | None) -> Component:
        mixer = attention(c, run, bias=bias, window=window)
        return uniform(c, run, mixer, mlp, norm="layernorm", ends_with_sum=sums)

    return decoder(c, run, *by_window(c, run, windows(c, lambda _: True), one), final="layernorm")
