"""Vectors that are all compared with all others."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num


def similarity(name: str, ones: Num, others: Num, width: Num) -> Component:
    """``A Bᵀ``: the product of each of ``ones`` vectors with each of ``others``.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·n·m·h``
    backward FLOPs        twice that
    ====================  =======================================================================

    Source: Radford et al. 2021 (CLIP, arXiv 2103.00020), figure 3; transformers' CLIPModel (``logits_per_text``).
    """
    return Component(name, "similarity", Cost(products=(Product("A Bᵀ", (2, ones, others, width)),)))


def mask_of_pairs(name: str, batch: Num, length: Num) -> Component:
    """``m mᵀ``: which pairs are of two tokens that are there, made of one number for each token.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·l²``
    backward FLOPs        none: a mask has no gradient
    ====================  =======================================================================

    Source: transformers' _prepare_aspect_ratio_attention_mask (Mllama).
    """
    return Component(name, "mask", Cost(products=(Product("m mᵀ", (2, batch, length, length), backward=0),)))
