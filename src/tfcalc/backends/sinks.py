"""Attention sinks as transformers' code has them."""

from __future__ import annotations

from tfcalc.nn.attention import Sinks
from tfcalc.ops.elementwise import add, pointwise
from tfcalc.ops.rows import log_sum_exp, softmax
from tfcalc.ops.shapes import cat, expand, reshape
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


def scale_by_sinks(scores: Tensor, sinks: Sinks) -> Tensor:
    """What sinks leave of each row: the sigmoid of the logarithm of the scores' sum, less the sink's score.

    Source: transformers' GraniteSWAAttention, ``eager_attention_forward``.
    """
    return pointwise("sigmoid", scores.trace.to(add(log_sum_exp(scores), _sink(scores, sinks)), "float32"))


def softmax_beside(scores: Tensor, sinks: Sinks) -> Tensor:
    """The softmax of both together, without the sink; each row's highest score, whose place is kept, may be taken off.

    Source: transformers' GptOssAttention and FlintAttention, ``eager_attention_forward``.
    """
    both = cat([scores, expand(_sink(scores, sinks), *scores.shape[:-1], 1)])
    return _of_keys(softmax_less_highest(both) if sinks.code == "highest" else softmax(both, both.dtype), scores)


def softmax_beside_own(scores: Tensor, sinks: Tensor) -> Tensor:
    """The same of a sink for each query and head, in fp32 (transformers' inkling2, ``eager_attention_forward``)."""
    return _of_keys(softmax(scores.trace.to(cat([scores, sinks]), "float32"), "float32"), scores)


def _of_keys(both: Tensor, scores: Tensor) -> Tensor:
    """Without the sink: a view."""
    shares, strides = both.storage, both.strides
    return both.trace.call(Call("slice", (both,), scores.shape, both.dtype, shares=shares, strides=strides))


def softmax_less_highest(scores: Tensor) -> Tensor:
    """In their own format; each row's highest score, whose place is kept, is taken off first."""
    trace, rows = scores.trace, (*scores.shape[:-1], 1)
    places = trace.new(rows, "int64", "argmax")
    highest = trace.call(Call("max", (scores,), rows, scores.dtype, saves=(places,)))
    return softmax(add(scores, highest), scores.dtype)


def _sink(scores: Tensor, sinks: Sinks) -> Tensor:
    with scores.trace.inside(sinks):
        return reshape(scores.trace.weight(sinks.tensor), 1, scores.shape[1], 1, 1)
