"""Phi and StarCoder2: GPT-likes with the attention of Llama, and biases throughout."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import Parallel
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import windows


@family(
    "phi",
    heads=tops.CAUSAL_LM | {"ForCausalLM": tops.lm_head(bias=True)},
    partial_rotary_factor=0.5,  # by __post_init__
)
def phi(c: Config) -> Module:
    """Phi-1 to Phi-2 (arXiv 2306.11644, 2309.05463): parallel sub-layers under one norm; a bias even on the logits."""
    norms = "layernorm" if c.flag("qk_layernorm") else ""
    names = ("q_proj", "k_proj", "v_proj", "dense")
    mixer = decoders.attention(c, names=names, bias=True, qk_norms=norms, norm_names=("q_layernorm", "k_layernorm"))
    layers = decoders.layer(
        c,
        mixer.replace(rope=decoders.rope(c, copies=True)),
        decoders.plain(c, bias=True, names=("fc1", "fc2")),
        of=Parallel,
        norm="layernorm",
        names=("input_layernorm",),
        dropped=bool(c.get("resid_pdrop")),
    )
    whole = decoders.decoder(c, layers, norm="layernorm", names=("model", "embed_tokens", "final_layernorm"))
    return whole.replace(dropped=bool(c.get("embd_pdrop")))


@family("starcoder2")
def starcoder2(c: Config) -> Module:
    """Lozhkov et al. 2024 (arXiv 2402.19173): grouped heads, but GPT-2's feed-forward network and norms."""
    bias, dropped = c.flag("use_bias"), bool(c.get("residual_dropout"))
    parts = decoders.attention(c, bias=bias), decoders.plain(c, bias=bias, names=("c_fc", "c_proj"))
    layer = decoders.layer(c, *parts, norm="layernorm", dropped=dropped)
    whole = decoders.decoder(c, decoders.with_windows(layer, windows(c, lambda _: True)), norm="layernorm")
    return whole.replace(dropped=bool(c.get("embedding_dropout")))
