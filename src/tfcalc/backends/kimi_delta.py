"""Kimi's delta rule in transformers' Python code, chunk by chunk (chunk_kimi_delta_attention)."""

from __future__ import annotations

from tfcalc.backends.delta import chunked, of_length_one
from tfcalc.core.number import ceil_div
from tfcalc.core.traced import value_of
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import add, filled, mul, pointwise, scaled, shifted
from tfcalc.ops.linear_attention import CHUNK
from tfcalc.ops.loops import State, growing, loop
from tfcalc.ops.loops import written as written_to
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import contiguous, copied, pad, part, reshape, select, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Shape, Tensor
from tfcalc.zoo.kimi_linear import ForgetGate, KimiDelta


def forgetting(gate: ForgetGate, ctx: Context, x: Tensor) -> Tensor:
    """Compute decays by softplus in fp32: one family by single kernels (and a mask, which is saved), another by one."""
    trace, given, rows, width = x.trace, x.dtype, x.shape[:2], gate.head_dim
    bias, log = gate.dt_bias.weight(trace), gate.A_log.weight(trace)
    x = trace.to(x, "float32")
    if gate.written_out:
        x = reshape(add(x, trace.to(bias, "float32")), *rows, gate.heads, width)
        rate = scaled(pointwise("exp", trace.to(log, "float32")))
        soft = pointwise("log", shifted(pointwise("exp", x), "1 + eˣ"))
        large = trace.new(x.shape, "bool", "large")
        soft = trace.call(Call("where", (x, soft), x.shape, x.dtype, saves=(large,)))
        return mul(reshape(rate, gate.heads, 1), soft)
    x = add(reshape(x, *rows, gate.heads, width), reshape(bias, gate.heads, width))
    rate = reshape(pointwise("exp", log), gate.heads, 1)
    if gate.bounded:
        return trace.to(scaled(pointwise("sigmoid", mul(rate, x))), given)
    return trace.to(mul(scaled(rate), pointwise("softplus", x)), given)


def kimi_delta(
    mixer: KimiDelta, ctx: Context, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor
) -> Tensor:
    """Run Kimi's delta rule in fp32; tensors are of b × l × heads × width.

    Scores are elementwise sums over three factors, as each channel has a decay of its own.
    """
    trace, given, (batch, length, heads, width) = q.trace, q.dtype, v.shape
    strength = pointwise("sigmoid", strength)
    q, k, v, strength, decay = (
        trace.to(contiguous(transpose(each, 1, 2)), "float32") for each in (q, k, v, strength, decay)
    )
    q, k = of_length_one(q), of_length_one(k)
    chunks = ceil_div(length, CHUNK)
    padded = chunks * CHUNK
    q = scaled(pad(q, 2, padded))
    k, v, decay, strength = (pad(each, 2, padded) for each in (k, v, decay, strength))
    written, counted = mul(v, unsqueeze(strength, -1)), mul(k, unsqueeze(strength, -1))
    q, k, decay, counted, written = (chunked(each, chunks) for each in (q, k, decay, counted, written))
    decay = scaled(decay, "cumsum")
    pairs = add(unsqueeze(decay, -2), unsqueeze(decay, -3))
    pairs = pointwise("exp", filled(pairs, trace.new((CHUNK, CHUNK, 1), "bool", "later")))
    system = _inverted(_scores(_pairwise(counted, k), pairs, trace.new((CHUNK, CHUNK), "bool", "not before")))
    new = matmul(system, written)
    reads = matmul(system, mul(counted, pointwise("exp", decay)))
    later = trace.new((CHUNK, CHUNK), "bool", "later")
    results = [trace.new(new.shape, new.dtype, "results")]
    state = trace.new((batch, heads, k.shape[-1], width), "float32", "state")

    def last(state: Tensor, made: Tensor) -> tuple[State, Tensor]:
        some_q, some_k, since = select(q, 2), select(k, 2), select(decay, 2)
        across = matmul(mul(some_q, pointwise("exp", since)), state)
        within = _scores(_pairwise(some_q, some_k), select(pairs, 2), later)
        corrected = add(select(new, 2), matmul(select(reads, 2), state))
        read = add(across, matmul(within, corrected))
        results[0] = written_to(made, read)
        return (state, results[0]), corrected

    def turn(state: Tensor, made: Tensor) -> tuple[State, None]:
        (state, made), corrected = last(state, made)
        some_k, since = select(k, 2), select(decay, 2)
        stays = mul(state, unsqueeze(pointwise("exp", select(since, 2)), -1))
        some_k = mul(some_k, pointwise("exp", add(part(since, 2, 1), since)))
        return (add(stays, matmul(transpose(some_k, -1, -2), corrected)), made), None

    loop(chunks, turn, state, results[0], last=last)
    made = transpose(part(reshape(results[0], batch, heads, padded, width), 2, length), 1, 2)
    return trace.to(contiguous(made), given)


def _pairwise(q: Tensor, k: Tensor) -> Tensor:
    """``q·k`` for each pair of tokens, channel by channel."""
    return mul(unsqueeze(q, -2), unsqueeze(k, -3))


def _scores(products: Tensor, decays: Tensor, hidden: Tensor) -> Tensor:
    """``Σ q·k·decay`` over the channels, for each pair of tokens; decays are read after the products are there."""
    products = mul(products, decays)
    return filled(_summed(products), hidden)


def _summed(x: Tensor) -> Tensor:
    return x.trace.call(Call("sum", (x,), x.shape[:-1], x.dtype))


def _inverted(x: Tensor) -> Tensor:
    """Invert a triangular matrix row by row, each from copies of the rows before it."""
    *lead, size, _ = x.shape

    def turn(x: Tensor, place: int) -> Tensor:
        row = copied(part(select(x, -2), -1, place), name="clone")
        before = copied(part(part(x, -1, place), -2, place), name="clone")
        change = mul(unsqueeze(row, -1), before)
        change = add(row, x.trace.call(Call("sum", (change,), row.shape, row.dtype)))
        return x.trace.call(Call("copy_", (x, change), x.shape, x.dtype, shares=x.storage, strides=x.strides))

    def saved(place: int) -> tuple[Shape, Shape]:
        return (*lead, place), (*lead, place, place)

    return shifted(growing(scaled(x), range(1, value_of(size)), turn, saved), "+ 1")
