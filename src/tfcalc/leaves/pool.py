"""Means of vectors that lie together."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num


def pool(name: str, batch: Num, length: Num, fewer: Num, width: Num) -> Component:
    """``P X`` with a fixed P of ``fewer`` rows: which vectors of a sequence each mean is made of.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·b·m·l·h`` for m means: zeros are multiplied too
    backward FLOPs        as many: P needs no gradient
    ====================  =======================================================================

    Source: transformers' Gemma4VisionPooler.
    """
    return Component(name, "pool", Cost(products=(Product("P X", (2, batch, fewer, length, width), backward=1),)))
