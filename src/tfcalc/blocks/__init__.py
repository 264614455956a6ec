"""Compositions of leaves that have a name in the literature. No formula stands here."""

from tfcalc.blocks.attention import Attention
from tfcalc.blocks.feed_forward import FeedForward
from tfcalc.blocks.layer import Layer

__all__ = ["Attention", "FeedForward", "Layer"]
