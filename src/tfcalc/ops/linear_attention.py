"""Linear attention: scores without softmax, so that a state of key_dim × value_dim replaces keys and values."""

from __future__ import annotations

from tfcalc.core.component import Component, Cost, Elementwise, Matmul
from tfcalc.core.number import Num, ceil_div, floor_div, minimum
from tfcalc.ops.recurrences import States

CHUNK = 64
"""Tokens per chunk of the delta rule, in transformers and flash-linear-attention."""

BELOW = CHUNK * (CHUNK - 1) // 2  # elements below the diagonal: Σ i
BELOW_SQUARED = CHUNK * (CHUNK - 1) * (2 * CHUNK - 1) // 6  # Σ i²: each row against all rows above it
DELTA_STEP = (7, 10)  # a·S, its product with k and the sum, + k·δ (2), the product with q and the sum
DECAY = (4, 4)  # a difference of decays, exp, and its products with both kinds of scores
BY_CHANNEL = (8, 12)  # the same for each channel of a key, in both sums of products
ROW = (2, 2)  # a product and a sum for each element left of the diagonal and each column of the right-hand side
STATE = (2, 3)  # a·S, and its sum with what is written
MEMORY_STEP = (6, 9)  # f·C + i·(k vᵀ), f·n + i·k
MEMORY_GATES = (6, 8)  # a difference of gates, max, minus it, exp, ·scores, ·scale


def lightning(name: str, states: States, block: Num) -> Component:
    """``S ← λ·S + k vᵀ``, then ``y = Sᵀ q``: by blocks, within which scores are computed instead of states.

    A sequence has M = ⌈l / B⌉ blocks; all but the last have B tokens, and that one r = l − B·(M − 1). For each head of
    each sequence, with keys of width k and values of width v:

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·((M − 1)·B² + r²)·(k + v)`` for Q Kᵀ and its product with V within the blocks,
                          ``2·l·k·v`` each for reading and writing the state
    of a decoding step    ``4·k·v``: k vᵀ and reading the state
    backward FLOPs        twice that; once for reading the first block's empty state, none for the last block's write
    elementwise FLOPs     1 per score, 2 per block and element of the state
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_backward_flops, matmul_flops
    >>> cost = lightning("scan", States(1, 5, 1, 3, 7, step=False), 4).own
    >>> matmul_flops(cost), matmul_backward_flops(cost)
    (760, 1268)

    Source: Qin et al. 2024 (Lightning Attention-2, arXiv 2401.04658), algorithm 1; transformers'
    MiniMaxLightningAttention.
    """
    k, v = states.key_dim, states.value_dim
    if states.step:
        products: tuple[Matmul, ...] = (states.product("k vᵀ", k, v), states.product("q S", k, v))
        decay = states.elementwise("λ·S + k vᵀ", k * v, *STATE)
        return Component(name, "scan", Cost(products=products, elementwise=(decay,)))
    blocks = ceil_div(states.length, block)
    before = blocks - 1
    first, last = minimum(states.length, block), states.length - block * before
    products = (
        states.product("Q Kᵀ", before, block, block, k),
        states.product("Q Kᵀ, last", last, last, k),
        states.product("(Q Kᵀ) V", before, block, block, v),
        states.product("(Q Kᵀ) V, last", last, last, v),
        states.product("Q S, first", first, k, v, backward=1),
        states.product("Q S, others", states.length - first, k, v),
        states.product("Kᵀ V", before, block, k, v),
        states.product("Kᵀ V, last", last, k, v, backward=0),
    )
    elementwise = (
        states.elementwise("decay within", before * block * block + last * last, 1, 1),
        states.elementwise("λ·S + Kᵀ V", blocks * k * v, *STATE),
    )
    return Component(name, "scan", Cost(products=products, elementwise=elementwise))


def delta_rule(name: str, states: States, *, by_channel: bool = False) -> Component:
    """``S ← (I − β k kᵀ)·a·S + β k vᵀ``, then ``y = Sᵀ q``: the state's value at k is removed before v is written.

    A sequence runs in N = ⌈l / 64⌉ chunks of c = 64 tokens, the last one padded. The tokens of a chunk see each other's
    corrections: a triangular system of c × c. The decay a is one number per head, or per channel of its keys
    (``by_channel``): then scores are sums of three factors, no matrix products, and the system's inverse is computed
    row by row and multiplied. For each head of each sequence:

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·N·c²·(2k + v)``: K Kᵀ and Q Kᵀ, and the latter's product with the corrected values
                          (by channel ``2·N·c²·(k + 2v)``: T K and T V with the inverse T, and the scores with V);
                          ``2·N·c·k·v`` each for the state read by Q and by the corrections, and for writing it
    of a decoding step    none: its sums over k are elementwise
    backward FLOPs        twice that, and ``2·N·c²·(k + v)`` for the gradient of the system that was solved;
                          once for reading the first chunk's empty state, none for the last chunk's write
    elementwise FLOPs     decays, and ``c·(c − 1)`` for solving each of k + v columns; in a step 7 per element of S
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> k, v = symbols("k v")
    >>> matmul_flops(delta_rule("scan", States(1, 100, 1, k, v, step=False)).own)
    32768*k + 16384*v + 768*k*v

    Source: Yang et al. 2024 (gated delta rule, arXiv 2412.06464), section 3.3; Kimi Linear (arXiv 2510.26692), section
    3; transformers' torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule, chunk_kimi_delta_attention.
    """
    k, v = states.key_dim, states.value_dim
    if states.step:
        return Component(name, "scan", Cost(elementwise=(states.elementwise("a·S + k δᵀ, Sᵀ q", k * v, *DELTA_STEP),)))
    chunks = ceil_div(states.length, CHUNK)
    scores = (chunks, CHUNK, CHUNK)
    within = (
        (states.product("T K", *scores, k), states.product("T V", *scores, v), states.product("(Q Kᵀ) U", *scores, v))
        if by_channel
        else (
            # the third backward products are those of the system's gradient, for k and for v columns
            states.product("K Kᵀ", *scores, k, backward=3),
            states.product("Q Kᵀ", *scores, k),
            states.product("(Q Kᵀ) U", *scores, v, backward=3),
        )
    )
    between = (
        states.product("W S, first", CHUNK, k, v, backward=1),
        states.product("W S, others", chunks - 1, CHUNK, k, v),
        states.product("Q S, first", CHUNK, k, v, backward=1),
        states.product("Q S, others", chunks - 1, CHUNK, k, v),
        states.product("Kᵀ U", chunks - 1, CHUNK, k, v),
        states.product("Kᵀ U, last", CHUNK, k, v, backward=0),
    )
    square = chunks * (CHUNK * CHUNK)
    system = chunks * BELOW_SQUARED if by_channel else chunks * BELOW * (k + v)
    elementwise: tuple[Elementwise, ...] = (
        states.elementwise("decay", square * k, *BY_CHANNEL)
        if by_channel
        else states.elementwise("decay", square, *DECAY),
        states.elementwise("triangular system", system, *ROW),
        states.elementwise("a·S + Kᵀ U", chunks * k * v, *STATE),
    )
    return Component(name, "scan", Cost(products=(*within, *between), elementwise=elementwise))


def matrix_memory(name: str, states: States, chunk: Num) -> Component:
    """``C ← f·C + i·k vᵀ`` and ``n ← f·n + i·k``, then ``h = Cᵀ q / max(|n·q|, …)``: the matrix LSTM's memory.

    A sequence runs in N = ⌊l / c⌋ whole chunks of c tokens, and the remaining r = l − c·N tokens one by one. For each
    head of each sequence:

    ====================  =======================================================================
    parameters            none
    forward FLOPs         ``2·N·c²·(k + v)`` for Q Kᵀ and its product with V within the chunks,
                          ``2·N·c·k·(2v + 1)`` for reading and writing C and n;
                          ``2·r·k·(2v + 1)`` for both, token by token
    of a decoding step    ``2·k·(2v + 1)``
    backward FLOPs        twice that
    elementwise FLOPs     gates: 6 per score within a chunk, 6 per element of the memory in each step
    ====================  =======================================================================

    >>> from tfcalc.core.measure import matmul_flops
    >>> from tfcalc.core.polynomial import symbols
    >>> k, v = symbols("k v")
    >>> matmul_flops(matrix_memory("memory", States(1, 1, 1, k, v, step=True), 64).own)
    4*k*v + 2*k

    Source: Beck et al. 2024 (xLSTM, arXiv 2405.04517), eq. 19 to 27; Beck et al. 2025 (xLSTM 7B, arXiv 2503.13427);
    transformers' mlstm_chunkwise_native_autograd and mlstm_recurrent_step_native.
    """
    k, v = states.key_dim, states.value_dim
    if states.step:
        return Component(name, "scan", _one_by_one(states, 1))
    chunks = floor_div(states.length, chunk)
    by_chunks = (
        states.product("Q Kᵀ", chunks, chunk, chunk, k),
        states.product("(Q Kᵀ) V", chunks, chunk, chunk, v),
        states.product("Kᵀ V", chunks, chunk, k, v),
        states.product("Q C", chunks, chunk, k, v),
        states.product("Q n", chunks, chunk, k),
    )
    gates = (
        states.elementwise("gates within", chunks * chunk * chunk, *MEMORY_GATES),
        states.elementwise("f·C + Kᵀ V", chunks * k * (v + 1), *STATE),
    )
    alone = _one_by_one(states, states.length - chunk * chunks)
    cost = Cost(products=(*by_chunks, *alone.products), elementwise=(*gates, *alone.elementwise))
    return Component(name, "scan", cost)


def _one_by_one(states: States, tokens: Num) -> Cost:
    """Return the cost of ``tokens`` of each sequence that run one after another."""
    k, v = states.key_dim, states.value_dim
    return Cost(
        products=(
            states.product("k vᵀ", tokens, k, v),
            states.product("q C", tokens, k, v),
            states.product("q n", tokens, k),
        ),
        elementwise=(states.elementwise("f·C + i·k vᵀ", tokens * k * (v + 1), *MEMORY_STEP),),
    )
