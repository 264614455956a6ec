"""Gated delta rule in transformers' Python code, chunk by chunk (torch_chunk_gated_delta_rule)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import known, value_of
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.linear_attention import CHUNK
from tfcalc.ops.loops import State, loop
from tfcalc.ops.loops import written as written_to
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import mean
from tfcalc.ops.shapes import contiguous, copied, pad, part, reshape, select, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.blocks.state_space import GatedDeltaNet


def gated_delta(
    mixer: GatedDeltaNet, ctx: Context, q: Tensor, k: Tensor, v: Tensor, strength: Tensor, decay: Tensor
) -> Tensor:
    """Run the gated delta rule in fp32; tensors are of b × l × heads × width.

    The decay between chunks is saved only if a second chunk reads the state.
    """
    trace, given, (batch, length, heads, width) = q.trace, q.dtype, v.shape
    strength = pointwise("sigmoid", strength)
    rate = scaled(pointwise("exp", trace.to(mixer.A_log.weight(trace), "float32")))
    decay = add(trace.to(decay, "float32"), mixer.dt_bias.weight(trace))
    decay = mul(rate, pointwise("softplus", trace.upper(decay)))
    q, k = (x if known(x.shape[2]) == known(heads) else _repeated(x, v) for x in (q, k))
    q, k, v, strength, decay = map(_in_float32, (q, k, v, strength, decay))
    q, k = of_length_one(q), of_length_one(k)
    q = scaled(q)
    chunks = ceil_div(length, CHUNK)
    padded = chunks * CHUNK
    q, k, v, strength, decay = (pad(each, 2, padded) for each in (q, k, v, strength, decay))
    written, counted = mul(v, unsqueeze(strength, -1)), mul(k, unsqueeze(strength, -1))
    q, k, written, counted = (chunked(each, chunks) for each in (q, k, written, counted))
    decay = scaled(reshape(decay, batch, heads, chunks, CHUNK), "cumsum")
    later = trace.new((CHUNK, CHUNK), "bool", "later")
    pairs = add(unsqueeze(decay, 4), unsqueeze(decay, 3))
    pairs = trace.call(Call("masked_fill", (pairs,), pairs.shape, pairs.dtype, saves=(later,)))
    pairs = pointwise("exp", pairs)
    system = mul(matmul(counted, transpose(k, -1, -2)), pairs)
    within = mul(matmul(q, transpose(k, -1, -2)), pairs)
    counted = mul(counted, unsqueeze(pointwise("exp", decay), -1))
    new, reads = _solved(system, written), _solved(system, counted)
    results = [trace.new(new.shape, new.dtype, "results")]
    q = mul(q, unsqueeze(pointwise("exp", decay), -1))
    state = trace.new((batch, heads, k.shape[-1], width), "float32", "state")
    if value_of(chunks) > 1:
        k = mul(k, unsqueeze(pointwise("exp", add(part(decay, -1, 1), decay)), -1))
        stays = unsqueeze(unsqueeze(pointwise("exp", select(decay, -1)), -1), -1)

    def last(state: Tensor, made: Tensor) -> tuple[State, Tensor]:
        corrected = add(select(new, 2), matmul(select(reads, 2), state))
        read = matmul(select(q, 2), state)
        read = add(read, matmul(select(within, 2), corrected))
        results[0] = written_to(made, read)
        return (state, results[0]), corrected

    def turn(state: Tensor, made: Tensor) -> tuple[State, None]:
        (state, made), corrected = last(state, made)
        state = add(mul(state, select(stays, 2)), matmul(transpose(select(k, 2), -1, -2), corrected))
        return (state, made), None

    loop(chunks, turn, state, results[0], last=last)
    made = part(reshape(results[0], batch, heads, padded, width), 2, length)
    made = transpose(made, 1, 2)
    return made if made.dtype == given else contiguous(trace.to(made, given))


def _repeated(x: Tensor, v: Tensor) -> Tensor:
    """Repeat heads of keys or queries for each head of values."""
    return copied(x, (*x.shape[:2], v.shape[2], x.shape[3]), "repeat_interleave")


def _in_float32(x: Tensor) -> Tensor:
    """Move heads before tokens, in fp32: a conversion makes a contiguous copy, fp32 itself stays a view."""
    x = transpose(x, 1, 2)
    return x if x.dtype == "float32" else x.trace.call(Call("to", (x,), x.shape, "float32"))


def of_length_one(x: Tensor) -> Tensor:
    """l2norm: by a product, not a power; it saves ``x`` all the same."""
    inverse = pointwise("rsqrt", scaled(mean(mul(x, x)), "+ ε"))
    return mul(x, inverse)


def chunked(x: Tensor, chunks: Num) -> Tensor:
    """Split tokens into chunks."""
    return reshape(x, *x.shape[:2], chunks, CHUNK, x.shape[-1])


def _solved(system: Tensor, right: Tensor) -> Tensor:
    """Solve a triangular system: saves the system and its solution (torch.linalg.solve_triangular).

    The gradient of the system is a product, of which backward takes the negative, and of that a triangle.
    """
    call = Call("solve_triangular", (system, right), right.shape, right.dtype, saves=(system,), saves_result=True)
    return system.trace.call(call._replace(scratch=system.storage.size))
