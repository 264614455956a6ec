"""Compositions of leaves that have a name in the literature. No formula stands here."""

from tfcalc.blocks.attention import LLAMA_NAMES, Attention
from tfcalc.blocks.experts import MixtureOfExperts
from tfcalc.blocks.feed_forward import FUSED, GATED, FeedForward
from tfcalc.blocks.latent_attention import LatentAttention
from tfcalc.blocks.layer import Layer, layer, stack

__all__ = [
    "FUSED",
    "GATED",
    "LLAMA_NAMES",
    "Attention",
    "FeedForward",
    "LatentAttention",
    "Layer",
    "MixtureOfExperts",
    "layer",
    "stack",
]
