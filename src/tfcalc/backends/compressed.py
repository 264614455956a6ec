"""DeepSeek-V4's attention as transformers writes it: summaries of tokens, and what turns a head's last numbers."""

from __future__ import annotations

from tfcalc.backends.rotation import key, rotated
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.nn.context import Context
from tfcalc.nn.positions import Rope
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import masked_fill
from tfcalc.ops.shapes import expand, part, reshape, split, transpose, unsqueeze
from tfcalc.ops.streams import sums
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.deepseek_v4 import CompressedAttention, CompressedIndexer, Compressor

KEYS = 2
"""What keys are made of: values and gates."""


def turned(x: Tensor, rope: Rope, rows: Num) -> Tensor:
    """The last numbers of each head, by angles of its own, of so many sequences."""
    angles = x.trace.new((rows, 1, x.shape[2], divide(rope.width, 2)), x.trace.weights_format, "angles")
    return rotated(x, (angles, angles), rope)


def turned_back(attention: CompressedAttention, ctx: Context, made: Tensor) -> Tensor:
    """By the opposite angles; of b × l × a × d."""
    assert attention.rope is not None
    return transpose(rotated(made, ctx.angles[key(attention)], attention.rope), 1, 2)


def summaries(mixer: Compressor, ctx: Context, kv: Tensor, gate: Tensor) -> Tensor:
    """The mean of each group's vectors, by weights in fp32, normed and turned."""
    trace, (b, _, wide), rate = kv.trace, kv.shape, mixer.rate
    n = mixer.keys(ctx.stream).length
    kv, gate = (reshape(part(each, 1, n * rate), b, n, rate, wide) for each in (kv, gate))
    gate = add(gate, mixer.position_bias.weight(trace))
    if mixer.overlap:
        kv, gate = (_of_two(each, mixer.width) for each in (kv, gate))
    weights = trace.to(softmax(gate, "float32"), kv.dtype)
    made = reshape(sums(mul(kv, weights), 2), b, n, mixer.width)
    made = mixer.kv_norm(made, ctx)
    return reshape(turned(unsqueeze(made, 1), mixer.rope, b), b, n, mixer.width)


def _of_two(x: Tensor, width: Num) -> Tensor:
    """Half of each group's numbers beside the other half of the group before, in new memory."""
    b, n, rate, _ = x.shape
    made = x.trace.new((b, n, 2 * rate, width), x.dtype, "two groups")
    own, before = split(x, [width, width])
    made = _written(made, own)
    return _written(made, part(before, 1, n - 1)) if value_of(n) > 1 else made


def _written(made: Tensor, one: Tensor) -> Tensor:
    return made.trace.call(
        Call("copy_", (made, one), made.shape, made.dtype, shares=made.storage, strides=made.strides)
    )


def indexed(mixer: CompressedIndexer, ctx: Context, *given: Tensor) -> Tensor:
    """Its keys, like those of any compressor; or the scores of queries, keys, and the weights of heads."""
    if len(given) == KEYS:
        return summaries(mixer, ctx, *given)
    q, k, weights = given
    return _scores(mixer, q, k, weights)


def _scores(mixer: CompressedIndexer, q: Tensor, k: Tensor, weights: Tensor) -> Tensor:
    """In fp32: of all heads, times their weights, added up; the best of those that are not masked."""
    trace, (b, l, *_) = q.trace, q.shape
    q = transpose(turned(transpose(q, 1, 2), mixer.rope, 1), 1, 2)
    k = expand(unsqueeze(trace.to(k, "float32"), 1), b, l, *k.shape[1:])
    found = scaled(pointwise("relu", matmul(trace.to(q, "float32"), transpose(k, 2, 3))))
    weights = scaled(trace.to(weights, "float32"))
    found = reshape(sums(mul(found, unsqueeze(weights, -1)), 2), b, l, found.width)
    return masked_fill(found)
