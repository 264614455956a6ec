"""Matrix LSTM in transformers' Python code: whole chunks at once, and the remaining tokens one by one."""

from __future__ import annotations

from tfcalc.core.number import Num, floor_div
from tfcalc.core.traced import value_of
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import add, filled, maximum, mul, pointwise, quotient, scaled, shifted
from tfcalc.ops.loops import State, loop, written
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import highest
from tfcalc.ops.select import row_sums
from tfcalc.ops.shapes import cat, contiguous, copied, narrow, part, reshape, select, stack, transpose, unsqueeze
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.xlstm import MatrixLSTM


def matrix_lstm(
    mixer: MatrixLSTM, ctx: Context, q: Tensor, k: Tensor, v: Tensor, let_in: Tensor, stays: Tensor
) -> Tensor:
    """wrap_chunkwise_arbitrary_sequence_length on b × heads × l × width, with gates of b × heads × l.

    States are in fp32.
    """
    trace, (batch, heads, length, keys) = q.trace, q.shape
    chunks = 0 if ctx.stream.cached is not None else floor_div(length, mixer.chunk)
    whole = chunks * mixer.chunk
    state: State = tuple(
        trace.new((batch, heads, *sizes), "float32", "state") for sizes in ((keys, v.width), (keys,), (1,))
    )
    inputs, made = (q, k, v, let_in, stays), []
    if value_of(whole):
        some = [_first(x, whole) for x in inputs]
        state, results = _by_chunks(state, chunks, mixer.chunk, *some)
        made.append(results)
    rest = length - whole
    if value_of(rest):
        made.append(_one_by_one(state, rest, *(_first(x, rest) for x in inputs)))
    return cat(made, 2)


def _first(x: Tensor, tokens: Num) -> Tensor:
    """Return ``tokens`` of a sequence, contiguous."""
    return contiguous(x if value_of(x.shape[2]) == value_of(tokens) else part(x, 2, tokens))


def _by_chunks(
    state: State, chunks: Num, size: Num, q: Tensor, k: Tensor, v: Tensor, let_in: Tensor, stays: Tensor
) -> tuple[State, Tensor]:
    """mlstm_chunkwise_native_autograd: computes the state before each chunk first, then all chunks at once."""
    trace, (batch, heads, length, keys), values = q.trace, q.shape, v.width
    let_in, stays = (reshape(each, batch, heads, chunks, size) for each in (let_in, stays))
    decays = scaled(trace.upper(pointwise("logsigmoid", stays)), "cumsum")
    ends = select(decays, -1)
    to_end = add(add(unsqueeze(ends, -1), decays), let_in)
    largest = highest(to_end)

    def turn(memory: Tensor, norm: Tensor, most: Tensor, *states: Tensor) -> tuple[State, None]:
        states = tuple(written(each, one) for each, one in zip(states, (memory, norm, most), strict=True))
        top = maximum(add(select(ends, 2), most), select(largest, 2))
        opened = _exp(add(select(to_end, 2), unsqueeze(top, -1)))
        some_k, some_v = part(k, 2, size), part(v, 2, size)
        some_k = transpose(mul(some_k, unsqueeze(opened, -1)), -1, -2)
        left = unsqueeze(_exp(add(add(select(ends, 2), most), top)), -1)
        memory = add(mul(unsqueeze(left, -1), memory), matmul(some_k, some_v))
        norm = add(mul(left, norm), reshape(row_sums(some_k), *norm.shape))
        after[:] = [memory, norm, top, *states]
        return tuple(after), None

    kind, more = q.dtype, chunks + 1
    shapes = (batch, heads, more * keys, values), (batch, heads, more * keys), (batch, heads, more)
    memory, norm, most = state
    after = [memory, norm, reshape(most, batch, heads), *(trace.new(shape, kind, "states") for shape in shapes)]
    loop(chunks, turn, *after)
    state, states = tuple(after[:3]), tuple(written(each, one) for each, one in zip(after[3:], after[:3], strict=True))
    memory = reshape(narrow(states[0], chunks * keys, 2), batch, heads, chunks, keys, values)
    norm = reshape(narrow(states[1], chunks * keys, 2), batch, heads, chunks, keys)
    most = narrow(states[2], chunks, 2)

    q, k, v = (reshape(each, batch, heads, chunks, size, each.width) for each in (q, k, v))
    pairs = filled(add(unsqueeze(decays, -1), unsqueeze(decays, -2)), trace.new((size, size), "bool", "earlier"))
    pairs = add(pairs, unsqueeze(let_in, -2))
    before = add(decays, unsqueeze(most, -1))
    top = unsqueeze(maximum(before, highest(pairs)), -1)
    pairs = _exp(add(pairs, top))
    scores = mul(scaled(matmul(q, transpose(k, -1, -2))), pairs)
    q = scaled(mul(q, _exp(add(unsqueeze(before, -1), top))))
    above = add(matmul(q, memory), matmul(scores, v))
    below = add(matmul(q, unsqueeze(norm, -1)), row_sums(scores))
    below = maximum(pointwise("abs", below), _exp(scaled(top)))
    made = quotient(above, shifted(below, "+ ε"))
    most = unsqueeze(state[2], -1)
    return (*state[:2], most), reshape(made, batch, heads, length, values)


def _one_by_one(state: State, tokens: Num, q: Tensor, k: Tensor, v: Tensor, let_in: Tensor, stays: Tensor) -> Tensor:
    """mlstm_recurrent_sequence_native: states in fp32, each copied before it is decayed."""
    trace, given, (batch, heads, _, values) = q.trace, q.dtype, v.shape

    def turn(memory: Tensor, norm: Tensor, most: Tensor) -> tuple[State, Tensor]:
        opened, decay = unsqueeze(select(let_in, 2), -1), pointwise("logsigmoid", unsqueeze(select(stays, 2), -1))
        key, query = select(k, 2), scaled(select(q, 2))
        top = maximum(add(decay, most), opened)
        left, opened = _exp(add(add(decay, most), top)), _exp(add(opened, top))
        new = matmul(unsqueeze(key, -1), unsqueeze(select(v, 2), -2))
        memory = add(mul(unsqueeze(left, -1), copied(memory)), mul(unsqueeze(opened, -1), new))
        norm = add(mul(left, copied(norm)), mul(opened, key))
        above = reshape(matmul(unsqueeze(query, 2), trace.to(memory, given)), batch, heads, values)
        above = trace.to(above, "float32")
        below = reshape(matmul(unsqueeze(query, 2), unsqueeze(trace.to(norm, given), -1)), batch, heads, 1)
        below = maximum(pointwise("abs", below), _exp(scaled(top)))
        below = trace.to(shifted(below, "+ ε"), "float32")
        return (memory, norm, top), trace.to(quotient(above, below), given)

    return stack(loop(tokens, turn, *state), v.shape)


def _exp(x: Tensor) -> Tensor:
    return pointwise("exp", x.trace.upper(x))
