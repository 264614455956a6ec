"""Recurrences of state-space models: a state that every token decays, writes and reads."""

from __future__ import annotations

from tfcalc.core.component import Component, Cost, Elementwise, Matmul
from tfcalc.core.number import Num, ceil_div
from tfcalc.named_tuple import NamedTuple

SELECTIVE = (6, 10)  # exp(Δ·A) (2), ·S, Δ·B·x (2), their sum; the gradients of all, and a sum where S is read twice
SKIP = (2, 3)  # D·x, and its sum with what is read
STEP = (4, 6)  # a·S, Δ·B·x (2), their sum
WITHIN = (4, 4)  # a sum of decays, its mask, exp, and its product with the scores
BETWEEN = (2, 3)  # exp of a sum of decays, and its product

GATED_SUMS = {
    "a·h + √(1−a²)·i·x": (9, 14),  # log a (3), exp, its square, 1 −, √, ·i·x, the sum; Griffin
    "wkv": (22, 33),  # numerator, denominator and maximum of this token and of the state; RWKV
    "μ·x + (1−μ)·x₋₁": (4, 5),  # RWKV's shift
    "B·x, C·y": (2, 4),  # LFM's gates on both sides of its convolution
    "Σ (w + w(x))·x": (3, 5),  # Inkling's convolution, with weights that the token adds to
}
"""Gated sums of a token and the state before it: operations per element, forward and backward."""


class States(NamedTuple):
    """``heads`` states of ``key_dim`` × ``value_dim`` in each of ``batch`` sequences of ``length`` tokens.

    ``step``: a decoding step of one token, given the state of earlier ones.
    """

    batch: Num
    length: Num
    heads: Num
    key_dim: Num
    value_dim: Num
    step: bool

    def product(self, name: str, *factors: Num, backward: int = 2) -> Matmul:
        """Return a matrix product that each head of each sequence runs."""
        return Matmul(name, (2, self.batch, self.heads, *factors), backward)

    def elementwise(self, name: str, elements: Num, forward: int, backward: int) -> Elementwise:
        """Return operations on each of the ``elements`` of each head of each sequence."""
        return Elementwise(name, self.batch * self.heads * elements, forward, backward)


def selective_scan(name: str, tokens: Num, channels: Num, states: Num) -> Component:
    """``S ← exp(Δ·A)·S + Δ·B·x``, then ``y = S C + D·x``: each channel has a state of n = ``states`` numbers.

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·t·c·n`` for S C; the rest is elementwise
    backward FLOPs        twice that
    elementwise FLOPs     6 per token and element of the state, backward 10; 2 per token and channel, backward 3
    ====================  =======================================================================

    A sequence runs token by token, so a decoding step costs the same as any token.

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> matmul_flops(selective_scan("scan", *symbols("t c n")).own)
    2*c*n*t

    Source: Gu and Dao 2023 (Mamba, arXiv 2312.00752), eq. 2 and algorithm 2; transformers' mamba_selective_scan and
    mamba_selective_state_update.
    """
    return Component(
        name,
        "scan",
        Cost(
            products=(Matmul("S C", (2, tokens, channels, states)),),
            elementwise=(
                Elementwise("exp(Δ·A)·S + Δ·B·x", tokens * channels * states, *SELECTIVE),
                Elementwise("+ D·x", tokens * channels, *SKIP),
            ),
        ),
    )


def state_space(name: str, states: States, chunk: Num) -> Component:
    """``S ← a·S + Δ·B xᵀ``, then ``y = Sᵀ C + D·x``, with one a per head: by chunks, within which it is attention.

    With N = ⌈l / q⌉ chunks of q tokens (the last one padded), k = ``key_dim`` (Mamba's state size) and v =
    ``value_dim`` (its head's width), for each head of each sequence:

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·N·q²·(k + v)`` for C Bᵀ and its product with X within the chunks,
                          ``2·N·q·k·v`` each for the states Bᵀ X that chunks leave and for reading them,
                          ``2·(N + 1)²·k·v`` for the states between chunks, the first of them empty
    of a decoding step    ``2·k·v``: S C; the rest is elementwise
    backward FLOPs        twice that
    elementwise FLOPs     4 per score within a chunk, 2 per decay of a state; in a step 4 per element of the state
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> a, k, v = symbols("a k v")
    >>> matmul_flops(state_space("scan", States(1, 8, a, k, v, step=False), 4).own)
    64*a*k + 64*a*v + 50*a*k*v

    Source: Dao and Gu 2024 (Mamba-2, arXiv 2405.21060), section 6 and listing 1; transformers' mamba2_chunk_scan and
    mamba2_selective_state_update.
    """
    k, v = states.key_dim, states.value_dim
    skip = states.elementwise("+ D·x", states.length * v, *SKIP)
    if states.step:
        products = (states.product("S C", k, v),)
        return Component(
            name, "scan", Cost(products=products, elementwise=(states.elementwise("a·S + Δ·B xᵀ", k * v, *STEP), skip))
        )
    chunks = ceil_div(states.length, chunk)
    places = chunks + 1
    return Component(
        name,
        "scan",
        Cost(
            products=(
                states.product("C Bᵀ", chunks, chunk, chunk, k),
                states.product("(C Bᵀ) X", chunks, chunk, chunk, v),
                states.product("Bᵀ X", chunks, chunk, k, v),
                states.product("decay · S", places, places, k, v),
                states.product("C S", chunks, chunk, k, v),
            ),
            elementwise=(
                states.elementwise("decay within", chunks * chunk * chunk, *WITHIN),
                states.elementwise("decay of B", chunks * chunk * k, *BETWEEN),
                states.elementwise("decay of S", chunks * chunk * v, *BETWEEN),
                skip,
            ),
        ),
    )


def gated_sum(name: str, kind: str, elements: Num) -> Component:
    """``h ← a·h + b·x`` of each channel, gates included: the operations of ``GATED_SUMS`` per element.

    Source: De et al. 2024 (Griffin, arXiv 2402.19427), eq. 4; Peng et al. 2023 (RWKV, arXiv 2305.13048), eq. 11 to 16;
    transformers' Lfm2ShortConv and Inkling's token shift.
    """
    return Component(name, "scan", Cost(elementwise=(Elementwise(kind, elements, *GATED_SUMS[kind]),)))
