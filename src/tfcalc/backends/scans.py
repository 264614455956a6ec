"""Recurrences as transformers writes them in Python, without the kernels of mamba-ssm or flash-linear-attention."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.backends.block_sparse import block_sparse
from tfcalc.backends.compressed import indexed, summaries, turned_back
from tfcalc.backends.delta import gated_delta
from tfcalc.backends.kimi_delta import forgetting, kimi_delta
from tfcalc.backends.lightning import lightning
from tfcalc.backends.mamba2 import state_space
from tfcalc.backends.mlstm import matrix_lstm
from tfcalc.backends.sliding import sliding
from tfcalc.core.traced import value_of
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, maximum, mul, pointwise, quotient, scaled, shifted
from tfcalc.ops.loops import State, loop, written
from tfcalc.ops.products import linear, matmul
from tfcalc.ops.shapes import cat, contiguous, reshape, select, stack, transpose, unsqueeze
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.blocks.blocked_attention import BlockAttention, SlidingAttention
from tfcalc.zoo.blocks.state_space import GatedDeltaNet, JointDeltaNet, Mamba, Mamba2
from tfcalc.zoo.deepseek_v4 import CompressedAttention, CompressedIndexer, Compressor
from tfcalc.zoo.hybrid import MultipliedMamba2
from tfcalc.zoo.kimi_linear import ForgetGate, KimiDelta
from tfcalc.zoo.minimax import LightningAttention
from tfcalc.zoo.recurrent_gemma import RGLRU
from tfcalc.zoo.rwkv import TimeMixing
from tfcalc.zoo.xlstm import MatrixLSTM
from tfcalc.zoo.zamba import MambaOfHeads


def decay(log: Tensor) -> Tensor:
    """``A = −exp(A_log)``, in fp32."""
    return scaled(pointwise("exp", log.trace.to(log, "float32")))


def mamba(mixer: Mamba, ctx: Context, x: Tensor, gate: Tensor, step: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """MambaMixer; ``x``, ``step``, ``b`` and ``c`` are of b × l × …, ``gate`` of b × c × l."""
    trace = x.trace
    a = decay(mixer.A_log.weight(trace))
    with trace.inside(mixer.dt_proj):
        weight, bias = (trace.weight(each) for each in mixer.dt_proj.own_params().weights)
        step = contiguous(transpose(linear(step, weight), 1, 2))
    bias, skip = trace.to(bias, "float32"), trace.to(mixer.D.weight(trace), "float32")
    made = selective_scan(transpose(x, 1, 2), step, bias, a, b, c, skip, gate)
    return trace.to(transpose(made, 1, 2), x.dtype)


def selective_scan(
    x: Tensor, step: Tensor, bias: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor, gate: Tensor
) -> Tensor:
    """mamba_selective_scan: of all places at once what is written to the states, and then token by token.

    A turn of its loop keeps the state that it reads, and the state that it makes where the product with C reads that in
    a narrower format. ``x``, ``step`` and ``gate`` are of b × c × l, ``b`` and ``c`` of b × l × states.
    """
    trace, given = x.trace, x.dtype
    step = add(step, unsqueeze(trace.to(bias, step.dtype), -1))
    step = pointwise("softplus", trace.upper(step))
    decays = pointwise("exp", mul(unsqueeze(a, 1), unsqueeze(step, -1)))
    b = mul(unsqueeze(step, -1), unsqueeze(trace.to(b, "float32"), 1))
    written = mul(b, unsqueeze(trace.to(x, "float32"), -1))

    def turn(state: Tensor) -> tuple[State, Tensor]:
        state = add(mul(select(decays, 2), state), select(written, 2))
        read = matmul(trace.to(state, given), unsqueeze(select(c, 1), -1))
        return (state,), select(read, -1)

    batch, channels, length, states = decays.shape
    made = stack(loop(length, turn, trace.new((batch, channels, states), given, "state")), (batch, channels, length))
    made = add(made, mul(x, unsqueeze(skip, -1)))
    return mul(made, pointwise("silu", gate))


def mamba_of_heads(
    mixer: MambaOfHeads, ctx: Context, x: Tensor, gate: Tensor, step: Tensor, b: Tensor, c: Tensor
) -> Tensor:
    """ZambaMambaMixer: head by head; all are of heads × b × …, and so are the parameters."""
    trace, heads, width = x.trace, mixer.heads, x.shape[2]
    a = decay(reshape(mixer.A_log.weight(trace), heads, width, mixer.states))
    with trace.inside(mixer.dt_proj):
        bias = trace.weight(mixer.dt_proj.own_params().weights[1], heads)
    bias, skip = trace.to(bias, "float32"), reshape(mixer.D.weight(trace), heads, width)
    made = []
    for _ in range(value_of(heads)):
        one, its_step, its_bias, its_a, its_b, its_c = (select(each, 0) for each in (x, step, bias, a, b, c))
        its_skip = trace.to(select(skip, 0), "float32")
        made.append(selective_scan(one, its_step, its_bias, its_a, its_b, its_c, its_skip, select(gate, 0)))
    return trace.to(transpose(cat(made, 1), 1, 2), x.dtype)


def griffin(mixer: RGLRU, ctx: Context, x: Tensor, let_in: Tensor, let_stay: Tensor) -> Tensor:
    """RecurrentGemmaRglru: the square root is a function of its own that keeps what it reads.

    States are in fp32, each of which the next turn keeps; the results are written to memory that is there before.
    """
    trace, (batch, length, width) = x.trace, x.shape
    starts = [trace.new((1, length, 1), "bool", "not the first place") for _ in range(2)]
    decay_ = pointwise("softplus", trace.upper(mixer.decay.weight(trace)))
    log = mul(scaled(let_stay), decay_)
    stays, squares = pointwise("exp", trace.upper(log)), pointwise("exp", trace.upper(scaled(log)))
    let_in = mul(x, let_in)
    root = shifted(squares, "1 − a²")
    root = trace.call(Call("SqrtBoundDerivative", (root,), root.shape, root.dtype, saves=(root,)))
    root = shifted(mul(starts[0], root), "or the first place")
    let_in = mul(let_in, trace.to(root, x.dtype))
    stays = mul(stays, starts[1])

    def turn(state: Tensor, made: Tensor) -> tuple[State, None]:
        state = mul(trace.to(select(stays, 1), "float32"), state)
        state = add(state, trace.to(select(let_in, 1), "float32"))
        results[0] = written(made, trace.to(state, made.dtype))
        return (state, results[0]), None

    results = [trace.new(x.shape, let_in.dtype, "results")]
    loop(length, turn, trace.new((batch, width), "float32", "state"), results[0])
    return results[0]


def rwkv(mixer: TimeMixing, ctx: Context, key: Tensor, value: Tensor) -> Tensor:
    """rwkv_linear_attention_cpu: sums and maxima in fp32, of which what follows the last output is forgotten.

    saved_tensors_hooks count some of that: an exponential that they hold keeps the node alive that made it.
    """
    trace, (batch, length, width) = key.trace, key.shape
    decay_ = scaled(pointwise("exp", mixer.decay.weight(trace)))
    first = mixer.first.weight(trace)

    def read(num: Tensor, den: Tensor, most: Tensor, made: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v = trace.to(select(key, 1), "float32"), select(value, 1)
        largest = maximum(most, add(k, first))
        old = pointwise("exp", add(most, largest))
        new = pointwise("exp", add(add(k, first), largest))
        above = add(mul(old, num), mul(new, v))
        one = trace.to(quotient(above, add(mul(old, den), new)), made.dtype)
        return k, v, written(made, one)

    def turn(num: Tensor, den: Tensor, most: Tensor, made: Tensor) -> tuple[State, None]:
        k, v, made = read(num, den, most, made)
        largest = maximum(add(most, decay_), k)
        old = pointwise("exp", add(add(most, decay_), largest))
        new = pointwise("exp", add(k, largest))
        state = add(mul(old, num), mul(new, v)), add(mul(old, den), new), largest, made
        results[0] = made
        return state, None

    def last(*state: Tensor) -> tuple[State, None]:
        results[0] = read(*state)[2]
        return state, None

    results = [trace.new(key.shape, key.dtype, "results")]
    states = [trace.new((batch, width), "float32", "state") for _ in range(3)]
    loop(length, turn, *states, results[0], last=last)
    return results[0]


CODE: dict[type[Module], Callable[..., Tensor]] = {
    Mamba: mamba,
    MambaOfHeads: mamba_of_heads,
    RGLRU: griffin,
    TimeMixing: rwkv,
    GatedDeltaNet: gated_delta,
    JointDeltaNet: gated_delta,
    Mamba2: state_space,
    LightningAttention: lightning,
    MatrixLSTM: matrix_lstm,
    KimiDelta: kimi_delta,
    ForgetGate: forgetting,
    MultipliedMamba2: state_space,
    Compressor: summaries,
    CompressedIndexer: indexed,
    CompressedAttention: turned_back,
    SlidingAttention: sliding,
    BlockAttention: block_sparse,
}
"""By the kind of mixer."""
