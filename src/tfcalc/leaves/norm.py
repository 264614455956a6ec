"""Normalisation of every token's vector."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Tensor
from tfcalc.core.number import Num


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

FURTHER = {
    # as above, without what the trained vectors cost
    "layernorm-plain": NormKind((), 5, 9),
    "rmsnorm-plain": NormKind((), 3, 6),
    "rmsnorm-bias": NormKind(("γ", "β"), 5, 10),
    # times γ, plus β (MobileBERT, arXiv 2004.02984, eq. 1); backward: g·γ, dγ (2), dβ
    "affine": NormKind(("γ", "β"), 2, 4),
}
"""Those that only published models have."""


def norm(name: str, kind: str, width: Num, tokens: Num) -> Component:
    """``(x − mean) / std · γ + β`` (LayerNorm) or ``x / rms · γ`` (RMSNorm), on each of ``tokens`` rows.

    ====================  =======================================================================
    parameters            LayerNorm ``2h``; without bias, or RMSNorm: ``h``
    matrix products       none
    elementwise FLOPs     7, 6 or 4 per element; backward 13, 12 or 9 (per-row scalars neglected)
    ====================  =======================================================================

    >>> from tfcalc.core.measure import params
    >>> params(norm("norm", "layernorm", 512, 1).own), params(norm("norm", "rmsnorm", 512, 1).own)
    (1024, 512)

    Source: Ba et al. 2016 (arXiv 1607.06450), eq. 4; Zhang and Sennrich 2019 (arXiv 1910.07467), eq. 4.
    """
    weights, forward, backward = (NORMS | FURTHER)[kind]
    return Component(
        name,
        "norm",
        Cost(
            weights=tuple(Tensor(letter, (width,), minor=True, key=KEYS[letter]) for letter in weights),
            elementwise=(Elementwise(kind, tokens * width, forward, backward, width),),
        ),
    )
