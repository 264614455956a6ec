"""Kinds of norms: their trained vectors, and what they cost per element."""

from __future__ import annotations

from typing import NamedTuple


class NormKind(NamedTuple):
    """Which trained vectors a norm has, and its operations per element, forward and backward."""

    weights: tuple[str, ...]
    forward: int
    backward: int


KEYS = {"γ": "weight", "β": "bias"}
"""What a checkpoint calls them."""

NORMS = {
    # mean (+), minus it, square, sum, times 1/std, times γ, plus β;
    # backward: g·γ, x̂ (2), its two row means (3), dx (4), dγ (2), dβ (1)
    "layernorm": NormKind(("γ", "β"), 7, 13),
    "layernorm-no-bias": NormKind(("γ",), 6, 12),
    # square, sum, times 1/rms, times γ; backward: g·γ, x̂, its row mean (2), dx (3), dγ (2)
    "rmsnorm": NormKind(("γ",), 4, 9),
}
"""Those that a Transformer may be given by name."""

FURTHER_NORMS = {
    # as above, without what the trained vectors cost
    "layernorm-plain": NormKind((), 5, 9),
    "rmsnorm-plain": NormKind((), 3, 6),
    "rmsnorm-bias": NormKind(("γ", "β"), 5, 10),
    # times γ, plus β (MobileBERT, arXiv 2004.02984, eq. 1); backward: g·γ, dγ (2), dβ
    "affine": NormKind(("γ", "β"), 2, 4),
}
"""Those that only published models have."""
