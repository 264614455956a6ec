"""Residual streams that are mixed by a matrix of each token."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num


def mixing(name: str, streams: Num, width: Num, tokens: Num) -> Component:
    """``Hᵀ X``: each token's n × n matrix times its n residual vectors.

    ====================  =======================================================================
    parameters            none: the matrix is made of the token
    forward FLOPs         ``2·t·n·n·h``
    backward FLOPs        twice that
    ====================  =======================================================================

    Source: Xie et al. 2025 (mHC, arXiv 2512.24880), eq. 3; transformers' DeepseekV4DecoderLayer.
    """
    return Component(name, "mixing", Cost(products=(Product("Hᵀ X", (2, tokens, streams, streams, width)),)))
