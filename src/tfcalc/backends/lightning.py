"""Lightning attention in transformers' Python code, block by block (MiniMaxLightningAttention)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.module import Context
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.loops import State, loop
from tfcalc.ops.products import matmul
from tfcalc.ops.shapes import part, transpose
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.zoo.minimax import LightningAttention


def lightning(mixer: LightningAttention, ctx: Context, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Run lightning attention on b × heads × l × width: scores within a block, a state for the blocks before it.

    Decays are buffers of the model, except that of a whole block, which is computed for each.
    """
    trace, (batch, heads, length, width), kind = q.trace, q.shape, q.trace.weights_format
    state = trace.new((batch, heads, width, width), v.dtype, "state")
    rates = trace.given((heads, 1, 1), kind, "rates")
    if ctx.stream.cached is not None:
        state = add(mul(pointwise("exp", scaled(rates)), state), matmul(transpose(k, -1, -2), v))
        return matmul(q, state)
    blocks = ceil_div(length, mixer.block)

    def read(state: Tensor, size: Num) -> tuple[Tensor, Tensor, Tensor]:
        some_q, some_k, some_v = (part(x, 2, size) for x in (q, k, v))
        scores = matmul(some_q, transpose(some_k, -1, -2))
        within = matmul(mul(scores, trace.given((1, heads, size, size), kind, "decay")), some_v)
        across = matmul(mul(some_q, trace.given((heads, size, 1), kind, "decay")), state)
        return add(across, within), some_k, some_v

    def turn(state: Tensor) -> tuple[State, Tensor]:
        made, some_k, some_v = read(state, mixer.block)
        some_k = mul(some_k, trace.given((heads, mixer.block, 1), kind, "decay"))
        written = matmul(transpose(some_k, -1, -2), some_v)
        return (add(mul(state, pointwise("exp", scaled(rates))), written),), made

    def last(state: Tensor) -> tuple[State, Tensor]:
        return (state,), read(state, length - mixer.block * (blocks - 1))[0]

    made = loop(blocks, turn, state, last=last)
    return trace.call(Call("cat", tuple(made), q.shape, made[0].dtype))
