"""GLM-4: Llama with fused gate and input, and biases on queries, keys and values."""

from __future__ import annotations

from tfcalc.configs.config import Config
from tfcalc.configs.family import family
from tfcalc.nn.layers import Sandwich
from tfcalc.nn.module import Module
from tfcalc.zoo.blocks import decoders
from tfcalc.zoo.blocks.decoders import BOTH_SIDES
from tfcalc.zoo.blocks.layers import FUSED


@family("glm", partial_rotary_factor=0.5)  # by __post_init__
def glm(c: Config) -> Module:
    """ChatGLM (arXiv 2406.12793): no bias on the output, whatever the flag says."""
    return decoders.decoder(c, decoders.layer(c, *fused(c)))


@family("glm4", partial_rotary_factor=0.5)  # by __post_init__
def glm4(c: Config) -> Module:
    """GLM-4-0414 (transformers' Glm4DecoderLayer): a norm after each sub-layer too."""
    return decoders.decoder(c, decoders.layer(c, *fused(c), of=Sandwich, names=BOTH_SIDES))


def fused(c: Config) -> tuple[Module, Module]:
    """Their attention and feed-forward network."""
    mixer = decoders.attention(c, bias=c.flag("attention_bias"), output_bias=False)
    return mixer.replace(rope=decoders.rope(c, by_layer=True, copies=True)), decoders.gated(c, names=FUSED)
