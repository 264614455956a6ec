"""The recurrences of state-space models and linear attention: a state that every token decays, writes and reads."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Elementwise, Product
from tfcalc.core.number import Num

SCALAR_DECAY = (1, 2)  # a·S with one a for a head; the gradients of both
FULL_DECAY = (3, 5)  # exp(Δ·A)·S with an A for each element


def scan(
    name: str,
    tokens: Num,
    heads: Num,
    key_dim: Num,
    value_dim: Num,
    *,
    reads: int = 1,
    decay: tuple[int, int] = SCALAR_DECAY,
) -> Component:
    """``S ← a·S + k vᵀ``, then ``y = Sᵀ q``, for each token and each of ``heads`` states of key_dim × value_dim.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·t·a·k·v`` for the write and as many for each of ``reads``
    backward FLOPs        twice that
    elementwise FLOPs     the state's ``decay``: 1 per element and token, or 3 where exp(Δ·A) is taken of each
    ====================  =======================================================================

    A delta rule reads twice: first what the state holds at k, so that only the difference to v is written. These are
    the operations of the recurrence; a kernel that works by chunks runs more of them, but as larger products.

    Source: Gu and Dao 2023 (Mamba, arXiv 2312.00752), eq. 2; Dao and Gu 2024 (Mamba-2, arXiv 2405.21060), section 2;
    Yang et al. 2024 (gated delta rule, arXiv 2412.06464), eq. 10.
    """
    factors = (2, tokens, heads, key_dim, value_dim)
    return Component(
        name,
        "scan",
        Cost(
            products=(Product("k vᵀ", factors), *(Product("Sᵀ q", factors) for _ in range(reads))),
            elementwise=(Elementwise("a·S", tokens * heads * key_dim * value_dim, *decay),),
        ),
    )


def gated_sum(name: str, kind: str, elements: Num, forward: int, backward: int) -> Component:
    """``h ← a·h + b·x`` on each channel by itself, gates and all: so many operations per ``elements``, no parameters.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), eq. 4; Peng et al. 2023 (RWKV, arXiv 2305.13048), eq. 16.
    """
    return Component(name, "scan", Cost(elementwise=(Elementwise(kind, elements, forward, backward),)))
