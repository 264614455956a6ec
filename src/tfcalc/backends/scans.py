"""Recurrences in transformers' Python code, without the kernels of mamba-ssm or flash-linear-attention."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.backends.block_sparse import block_sparse
from tfcalc.backends.compressed import indexed, rotated_back, summaries
from tfcalc.backends.delta import gated_delta
from tfcalc.backends.kimi_delta import forgetting, kimi_delta
from tfcalc.backends.lightning import lightning
from tfcalc.backends.mamba2 import state_space
from tfcalc.backends.mlstm import matrix_lstm
from tfcalc.backends.sliding import sliding
from tfcalc.core.traced import value_of
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import add, maximum, mul, pointwise, quotient, scaled, shifted
from tfcalc.ops.loops import State, loop, written
from tfcalc.ops.products import linear, matmul
from tfcalc.ops.shapes import cat, contiguous, reshape, select, stack, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Tensor
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
    """MambaMixer: ``x``, ``step``, ``b`` and ``c`` are of b × l × …, ``gate`` of b × c × l."""
    trace = x.trace
    a = decay(mixer.A_log.weight(trace))
    with trace.inside(mixer.dt_proj):
        weight, bias = map(trace.weight, mixer.dt_proj.own_params().weights)
        step = contiguous(transpose(linear(step, weight), 1, 2))
    bias, skip = trace.to(bias, "float32"), trace.to(mixer.D.weight(trace), "float32")
    made = selective_scan(transpose(x, 1, 2), step, bias, a, b, c, skip, gate)
    return trace.to(transpose(made, 1, 2), x.dtype)


def selective_scan(
    x: Tensor, step: Tensor, bias: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor, gate: Tensor
) -> Tensor:
    """mamba_selective_scan: computes what is written to the state for all tokens at once, then scans token by token.

    An iteration saves the state that it reads, and the one that it makes if the product with C reads that in a narrower
    format. ``x``, ``step`` and ``gate`` are of b × c × l, ``b`` and ``c`` of b × l × states.
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
    """ZambaMambaMixer: scans head by head; the first axis of inputs and parameters is that of heads."""
    trace, heads, width = x.trace, mixer.heads, x.shape[2]
    a = decay(reshape(mixer.A_log.weight(trace), heads, width, mixer.states))
    with trace.inside(mixer.dt_proj):
        bias = trace.weight(mixer.dt_proj.own_params().weights[1], heads)
    bias, skip = trace.to(bias, "float32"), reshape(mixer.D.weight(trace), heads, width)
    made = []
    for _ in range(value_of(heads)):
        x_, step_, bias_, a_, b_, c_ = (select(tensor, 0) for tensor in (x, step, bias, a, b, c))
        skip_ = trace.to(select(skip, 0), "float32")
        made.append(selective_scan(x_, step_, bias_, a_, b_, c_, skip_, select(gate, 0)))
    return trace.to(transpose(cat(made, 1), 1, 2), x.dtype)


def griffin(mixer: RGLRU, ctx: Context, x: Tensor, let_in: Tensor, let_stay: Tensor) -> Tensor:
    """RecurrentGemmaRglru: the square root is a torch.autograd.Function that saves its input.

    States are in fp32, and each is saved by the next iteration; results are written to preallocated memory.
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
    """rwkv_linear_attention_cpu: sums and maxima in fp32; those after the last output are freed at once.

    saved_tensors_hooks count some of them: an exponential that a hook stores refers to the node that made it.
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
        result = trace.to(quotient(above, add(mul(old, den), new)), made.dtype)
        return k, v, written(made, result)

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
    CompressedAttention: rotated_back,
    SlidingAttention: sliding,
    BlockAttention: block_sparse,
}
"""Functions by the class of the mixer."""
