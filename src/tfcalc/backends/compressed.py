"""DeepSeek-V4's compressed attention in transformers: summaries of tokens, and rotation of a head's last elements."""

from __future__ import annotations

from tfcalc.backends.elementwise import key, rotated
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.nn.module import Context
from tfcalc.nn.positions import Rope
from tfcalc.ops.elementwise import add, mul, pointwise, scaled
from tfcalc.ops.loops import written
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import softmax
from tfcalc.ops.select import masked_fill
from tfcalc.ops.shapes import expand, part, reshape, split, transpose, unsqueeze
from tfcalc.ops.streams import sums
from tfcalc.tape.tensor import Tensor
from tfcalc.zoo.deepseek_v4 import CompressedAttention, CompressedIndexer, Compressor

KEYS = 2
"""Number of tensors that keys are computed from: values and gates."""


def rotated_last(x: Tensor, rope: Rope, rows: Num) -> Tensor:
    """Rotate the last elements of each head by angles of its own, for ``rows`` sequences."""
    angles = x.trace.new((rows, 1, x.shape[2], divide(rope.width, 2)), x.trace.weights_format, "angles")
    return rotated(x, (angles, angles), rope)


def rotated_back(attention: CompressedAttention, ctx: Context, heads: Tensor) -> Tensor:
    """Rotate attention's result by the opposite angles; to b × l × a × d."""
    assert attention.rope is not None
    return transpose(rotated(heads, ctx.angles[key(attention)], attention.rope), 1, 2)


def summaries(mixer: Compressor, ctx: Context, kv: Tensor, gate: Tensor) -> Tensor:
    """Summarize each group of vectors: their mean by weights in fp32, normed and rotated."""
    trace, (b, _, wide), rate = kv.trace, kv.shape, mixer.rate
    n = mixer.keys(ctx.stream).length
    kv, gate = (reshape(part(x, 1, n * rate), b, n, rate, wide) for x in (kv, gate))
    gate = add(gate, mixer.position_bias.weight(trace))
    if mixer.overlap:
        kv, gate = (_overlapping(x, mixer.width) for x in (kv, gate))
    weights = trace.to(softmax(gate, "float32"), kv.dtype)
    means = reshape(sums(mul(kv, weights), 2), b, n, mixer.width)
    means = mixer.kv_norm(means, ctx)
    return reshape(rotated_last(unsqueeze(means, 1), mixer.rope, b), b, n, mixer.width)


def _overlapping(x: Tensor, width: Num) -> Tensor:
    """Concatenate half of each group's elements with the other half of the group before, in new memory."""
    b, n, rate, _ = x.shape
    both = x.trace.new((b, n, 2 * rate, width), x.dtype, "two groups")
    own, before = split(x, [width, width])
    both = written(both, own)
    return written(both, part(before, 1, n - 1)) if value_of(n) > 1 else both


def indexed(mixer: CompressedIndexer, ctx: Context, *given: Tensor) -> Tensor:
    """Return the indexer's keys, like those of any compressor; or scores, given queries, keys, and weights of heads."""
    if len(given) == KEYS:
        return summaries(mixer, ctx, *given)
    q, k, weights = given
    return _scores(mixer, q, k, weights)


def _scores(mixer: CompressedIndexer, q: Tensor, k: Tensor, weights: Tensor) -> Tensor:
    """Return masked scores in fp32: the sum over heads, times their weights."""
    trace, (b, l, *_) = q.trace, q.shape
    q = transpose(rotated_last(transpose(q, 1, 2), mixer.rope, 1), 1, 2)
    k = expand(unsqueeze(trace.to(k, "float32"), 1), b, l, *k.shape[1:])
    scores = scaled(pointwise("relu", matmul(trace.to(q, "float32"), transpose(k, 2, 3))))
    weights = scaled(trace.to(weights, "float32"))
    scores = reshape(sums(mul(scores, unsqueeze(weights, -1)), 2), b, l, scores.width)
    return masked_fill(scores)
