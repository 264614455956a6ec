"""Attention sinks in transformers' code."""

from __future__ import annotations

from tfcalc.nn.attention import Sinks
from tfcalc.ops.elementwise import add, pointwise
from tfcalc.ops.rows import log_sum_exp, softmax
from tfcalc.ops.shapes import cat, expand, reshape
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Tensor


def scale_by_sinks(scores: Tensor, sinks: Sinks) -> Tensor:
    """Return the share of each row that sinks leave: the sigmoid of log-sum-exp minus the sink's score.

    Source: transformers' GraniteSWAAttention, ``eager_attention_forward``.
    """
    return pointwise("sigmoid", scores.trace.to(add(log_sum_exp(scores), _sink(scores, sinks)), "float32"))


def softmax_beside(scores: Tensor, sinks: Sinks) -> Tensor:
    """Softmax over scores and sink, without the sink's column; some code subtracts each row's maximum first.

    Source: transformers' GptOssAttention and FlintAttention, ``eager_attention_forward``.
    """
    both = cat([scores, expand(_sink(scores, sinks), *scores.shape[:-1], 1)])
    return _of_keys(softmax_less_highest(both) if sinks.code == "highest" else softmax(both, both.dtype), scores)


def softmax_beside_own(scores: Tensor, sinks: Tensor) -> Tensor:
    """Softmax with a sink for each query and head, in fp32 (transformers' inkling2, ``eager_attention_forward``)."""
    return _of_keys(softmax(scores.trace.to(cat([scores, sinks]), "float32"), "float32"), scores)


def _of_keys(both: Tensor, scores: Tensor) -> Tensor:
    """Cut off the sink's column: a view."""
    shares, strides = both.storage, both.strides
    return both.trace.call(Call("slice", (both,), scores.shape, both.dtype, shares=shares, strides=strides))


def softmax_less_highest(scores: Tensor) -> Tensor:
    """Softmax in the scores' format, after subtracting each row's maximum, whose index is saved."""
    trace, rows = scores.trace, (*scores.shape[:-1], 1)
    places = trace.new(rows, "int64", "argmax")
    highest = trace.call(Call("max", (scores,), rows, scores.dtype, saves=(places,)))
    return softmax(add(scores, highest), scores.dtype)


def _sink(scores: Tensor, sinks: Sinks) -> Tensor:
    with scores.trace.inside(sinks):
        return reshape(scores.trace.weight(sinks.tensor), 1, scores.shape[1], 1, 1)
