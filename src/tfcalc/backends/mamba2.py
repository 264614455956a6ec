"""Mamba-2's recurrence in transformers' Python code, chunk by chunk (mamba2_chunk_scan)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import value_of
from tfcalc.nn.module import Context
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.shapes import cat, contiguous, copied, pad, part, permute, reshape, select, transpose, unsqueeze
from tfcalc.tape.tensor import Call, Shape, Tensor
from tfcalc.zoo.blocks.state_space import Mamba2


def state_space(mixer: Mamba2, ctx: Context, x: Tensor, b: Tensor, c: Tensor, step: Tensor) -> Tensor:
    """Run the recurrence in fp32; ``x`` of b × l × heads × width, B and C of b × l × groups × states.

    Each product copies its operands, and saves these copies, as heads come after tokens in memory. Variables live as
    long as those of transformers' code do, so what is computed with a factor has a name of its own.
    """
    trace, (batch, length, heads, width) = x.trace, x.shape
    rate = scaled(pointwise("exp", trace.to(mixer.A_log.weight(trace), "float32")))
    step = add(step, trace.to(mixer.dt_bias.weight(trace), step.dtype))
    step = pointwise("clamp", pointwise("softplus", trace.upper(step)))
    x = trace.to(x, "float32")
    b, c = (_for_heads(trace.to(of_groups, "float32"), heads) for of_groups in (b, c))
    chunks = ceil_div(length, mixer.chunk)
    padded = chunks * mixer.chunk
    skip = mul(unsqueeze(mixer.D.weight(trace), -1), pad(x, 1, padded))
    x = mul(x, unsqueeze(trace.to(step, "float32"), -1))
    decay = mul(rate, trace.to(step, "float32"))
    x, decay, b, c = (_chunked(tokens, chunks, mixer.chunk) for tokens in (x, decay, b, c))
    decay = permute(decay, (0, 3, 1, 2))
    summed = scaled(decay, "cumsum")
    pairs = pointwise("exp", _segment_sum(decay))
    scores = einsum("bclhn,bcshn->bclsh", c, b)
    decayed = mul(scores, permute(pairs, (0, 2, 3, 4, 1)))
    within = einsum("bclsh,bcshp->bclhp", decayed, x)
    until_end = pointwise("exp", add(part(summed, -1, 1), summed))
    writes = mul(b, unsqueeze(permute(until_end, (0, 2, 3, 1)), -1))
    states = einsum("bclhn,bclhp->bchpn", writes, x)
    first = trace.new((batch, 1, heads, width, mixer.states), "float32", "state")
    states = cat([first, states], 1)
    between = _segment_sum(copied(select(summed, -1), (batch, heads, chunks + 1), "pad"))
    between = transpose(pointwise("exp", between), 1, 3)
    states = part(einsum("bzch,bzhpn->bchpn", between, states), 1, chunks)
    since_start = pointwise("exp", summed)
    read = einsum("bclhn,bchpn->bclhp", c, states)
    across = mul(read, unsqueeze(permute(since_start, (0, 2, 3, 1)), -1))
    made = reshape(contiguous(add(within, across)), batch, padded, heads, width)
    made = add(made, skip)
    return made if value_of(padded) == value_of(length) else part(made, 1, length)


def _for_heads(x: Tensor, heads: Num) -> Tensor:
    """Copy a group's vectors for each of its heads (repeat_interleave)."""
    return copied(x, (*x.shape[:2], heads, x.shape[3]), "repeat_interleave")


def _chunked(x: Tensor, chunks: Num, size: Num) -> Tensor:
    return reshape(pad(x, 1, chunks * size), x.shape[0], chunks, size, *x.shape[2:])


def _segment_sum(x: Tensor) -> Tensor:
    """Sum from each place to each later one: saves two masks and no sum; ``filled`` is live until it returns."""
    size = x.shape[-1]
    filled = _masked(x, (*x.shape, size))
    sums = scaled(filled, "cumsum")
    return _masked(sums, sums.shape)


def _masked(x: Tensor, shape: Shape) -> Tensor:
    mask = x.trace.new((shape[-1], shape[-1]), "bool", "mask")
    return x.trace.call(Call("masked_fill", (x,), shape, x.dtype, saves=(mask,)))
