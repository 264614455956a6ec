"""Models whose attention and feed-forward network may read the same norm, one beside the other."""

from __future__ import annotations

from tfcalc.configs import tops
from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import Parallel, PreNorm
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.layers import full_and_sliding, windows

PARALLEL = ("input_layernorm",)
NORM, CODE = "layernorm-no-bias", "python"
HEADS = tops.CAUSAL_LM | tops.scaled_lm()


@family("cohere", heads=HEADS)
def cohere(c: Config) -> Module:
    """Command R (transformers' CohereDecoderLayer): one LayerNorm a layer, without bias; a flag norms heads too."""
    norms = NORM if c.flag("use_qk_norm") else ""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), qk_norms=norms, code=CODE, each=True)
    mixer = mixer.replace(rope=decoders.rope(c, in_float32=True))
    layers = decoders.layer(c, mixer, decoders.gated(c), of=Parallel, norm=NORM, names=PARALLEL, code=CODE)
    return decoders.decoder(c, layers, norm=NORM, code=CODE)


@family(
    "cohere2",
    heads=HEADS,
    sliding_window_pattern=4,  # by __post_init__, for older configs
)
def cohere2(c: Config) -> Module:
    """Command A (arXiv 2504.00698): no norms of heads, whatever the flag says; all layers but every fourth slide.

    Only those that slide have rotary positions.
    """
    every = c.number("sliding_window_pattern")
    mixer = decoders.attention(c, bias=c.flag("attention_bias")).replace(rope=decoders.rope(c, in_float32=True))
    layer = decoders.layer(c, mixer, decoders.gated(c), of=Parallel, norm=NORM, names=PARALLEL, code=CODE)
    layers = decoders.with_windows(layer, windows(c, lambda place: (place + 1) % every != 0), rope=None)
    return decoders.decoder(c, layers, norm=NORM, code=CODE, masks=full_and_sliding(c))


@family("stablelm", partial_rotary_factor=0.25)  # by __post_init__
def stablelm(c: Config) -> Module:
    """StableLM 2 (arXiv 2402.17834): LayerNorms with biases, and one without for each head of queries and keys.

    A head is always as wide as the hidden size split among the heads: there is no field for it.
    """
    d = c.quotient("hidden_size", "num_attention_heads")
    mixer = decoders.attention(
        c,
        bias=c.flag("use_qkv_bias"),
        output_bias=False,
        qk_norms=NORM if c.flag("qk_layernorm") else "",
        norm_names=("q_layernorm.norms", "k_layernorm.norms"),
        code="head by head",
        width=d,
        each=True,
    ).replace(rope=decoders.rope(c, d, copies=True))
    wiring, names = (Parallel, PARALLEL) if c.flag("use_parallel_residual") else (PreNorm, decoders.PRE_NORM)
    dropped = bool(c.get("hidden_dropout"))
    layers = decoders.layer(c, mixer, decoders.gated(c), of=wiring, names=names, norm="layernorm", dropped=dropped)
    return decoders.decoder(c, layers.replace(undropped=("self_attn",)), norm="layernorm")
