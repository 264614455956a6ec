"""Compositions of leaves that have a name in the literature. No formula stands here.

Those that most models have can be imported from here; the others from their modules, so that nobody waits for them.
"""

from tfcalc.blocks.attention import LLAMA_NAMES, Attention
from tfcalc.blocks.feed_forward import FUSED, GATED, FeedForward
from tfcalc.blocks.layer import layer, stack

__all__ = ["FUSED", "GATED", "LLAMA_NAMES", "Attention", "FeedForward", "layer", "stack"]
