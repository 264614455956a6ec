"""softmax(Q Kᵀ) V: transformers' eager code, or the kernels of scaled_dot_product_attention."""

from __future__ import annotations

from contextlib import nullcontext

from tfcalc.core.traced import known, value_of
from tfcalc.nn.attention import Attention, EagerCode, Sinks
from tfcalc.nn.module import Context
from tfcalc.ops.attention import by_token, fused_attention
from tfcalc.ops.elementwise import add, dropout, filled, limited, mul, pointwise, scaled
from tfcalc.ops.products import matmul
from tfcalc.ops.rows import log_sum_exp, softmax
from tfcalc.ops.shapes import cat, contiguous, copied, expand, narrow, reshape, transpose
from tfcalc.tape.interpreter import Interpreter, padded
from tfcalc.tape.tensor import Call, Tensor
from tfcalc.workload import EITHER

FLASH_STATE, EFFICIENT_STATE = 3, 2
"""Elements (int64) of the random state that each kernel saves for dropout."""
FLASH_WIDEST = 256
"""Widest heads that flash attention supports."""
ALIGNED = 8
"""Alignment, in elements, of rows of masks for the memory-efficient kernel (pad_bias in torch's
aten/src/ATen/native/transformers/attention.cpp)."""


def attended(q: Tensor, k: Tensor, v: Tensor, attention: Attention, ctx: Context) -> Tensor:
    """softmax(Q Kᵀ) V by the requested kernel, or by the next one that supports these heads."""
    mask = ctx.masks.get(attention.mask) if attention.looks_at_mask else None
    masked = mask is not None or attention.bias(ctx) is not None
    kernel = _able(q, k, v, ctx, masked=masked)
    if ctx.cache is not None and not masked and kernel != "eager" and not ctx.run.decoding:
        k, v = narrow(k, q.shape[2], 2), narrow(v, q.shape[2], 2)  # a prompt reads itself, not the buffers' free places
    one_by_one = kernel != "eager" and known(q.shape[2]) == 1  # pack_gqa: heads that share keys become queries
    efficient = kernel == "efficient" and not one_by_one and (masked or not ctx.own_attention)
    if efficient or kernel in ("eager", "math"):
        k, v = (repeated(each, q, eager=kernel != "math" or masked) for each in (k, v))
    if kernel == "eager":
        return eager(q, k, v, mask, attention, ctx)
    if kernel == "math":
        return math(q, k, v, mask, attention, ctx)
    if kernel == "flash":
        return flash(q, k, v)
    rows = q.shape[0] * padded(q.shape[2]) * q.shape[1] if ctx.run.training else 0
    return fused_attention(q, k, v, rows, EFFICIENT_STATE, sdpa_mask(q, k, mask, attention, ctx))


def attended_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Bidirectional attention by one kernel: flash attention if format and width allow it."""
    trace = q.trace
    if trace.compute != "float32" and trace.lower(q).dtype != "float32" and value_of(q.width) <= FLASH_WIDEST:
        return flash(q, k, v)
    return fused_attention(q, k, v, q.shape[0] * padded(q.shape[2]) * q.shape[1], EFFICIENT_STATE)


def _able(q: Tensor, k: Tensor, v: Tensor, ctx: Context, *, masked: bool) -> str:
    """Return the kernel that runs: flash attention takes no mask and one width, the memory-efficient not every width.

    Without a mask transformers passes shared keys to sdpa (``enable_gqa``), which only flash attention supports, so
    PyTorch's own choice in fp32 is math. If the memory-efficient kernel is requested by name, keys are repeated for it.
    Source: aten's sdp_utils.cpp; transformers' ``use_gqa_in_sdpa``. A library of kernels calls its own.
    """
    asked = ctx.run.kernel
    if not ctx.run.fused:
        return asked
    widths = {value_of(q.width), value_of(v.width)}
    if asked == "flash" and not masked and (ctx.own_attention or (len(widths) == 1 and max(widths) <= FLASH_WIDEST)):
        return "flash"
    aligned = ALIGNED // 2 if q.trace.compute == "float32" else ALIGNED
    shared = q.shape[1] != k.shape[1] and not masked and not ctx.own_attention
    grouped = asked == EITHER and shared and len(widths) == 1 and max(widths) <= FLASH_WIDEST
    return "math" if grouped or any(width % aligned for width in widths) else "efficient"


def repeated(x: Tensor, q: Tensor, *, eager: bool) -> Tensor:
    """repeat_kv: repeat keys or values for each head that reads them; those of a single head are an expanded view.

    Without a mask the kernel itself does it (math), and always copies.
    """
    b, g, s, d = x.shape
    a = q.shape[1]
    if g == a:
        return x
    if eager and known(g) == 1:
        return expand(x, b, a, s, d)
    return copied(x, (b, a, s, d), "repeat_kv")


def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Flash attention, with heads padded to the kernel's alignment.

    The result has the queries' layout. Source: pad_last_dim in torch's
    aten/src/ATen/native/transformers/attention.cpp.
    """
    rows, width = q.rows, q.width
    if value_of(width) % ALIGNED == 0:
        return fused_attention(q, k, v, rows, FLASH_STATE, like_queries=True)
    whole = padded(width, ALIGNED)
    shape = (*q.shape[:-1], v.width)
    q, k, v = (copied(q.trace.lower(x), (*x.shape[:-1], whole), "pad") for x in (q, k, v))
    heads = fused_attention(q, k, v, rows, FLASH_STATE)
    return copied(heads, shape, "slice", by_token(shape))


def math(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, attention: Attention, ctx: Context) -> Tensor:
    """Attention by sdpa's composite products, all in fp32 (_scaled_dot_product_attention_math)."""
    trace = q.trace
    assert isinstance(trace, Interpreter)
    bias = sdpa_mask(q, k, mask, attention, ctx)
    bias = None if bias is None else trace.to(bias, "float32")
    q, k, v = (trace.to(trace.lower(each), "float32") for each in (q, k, v))
    looks_back = bias is None and attention.causal and not ctx.run.decoding
    causal = trace.new((q.shape[2], k.shape[2]), "float32", "causal mask") if looks_back else None
    with trace.no_autocast():
        times = scaled(q)  # q, k and v in fp32 are local variables, live until the function returns
        p = matmul(times, transpose(scaled(k), 2, 3))
        if bias is not None:
            p = add(p, bias)
        p = softmax(p, "float32")
        del causal  # live until here: added to the scores
        o = matmul(_dropped(p, attention, ctx), v)
    return trace.to(o, trace.compute)


def eager(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, attention: Attention, ctx: Context) -> Tensor:
    """Attention of transformers' eager_attention_forward."""
    trace, code = q.trace, attention.eager
    p = scaled(_scores(q, k, code))
    if (bias := attention.bias(ctx)) is not None:
        p = add(p, expand(bias, *p.shape))
    if attention.capped:
        p = scaled(pointwise("tanh", scaled(p, "div")))
    if ctx.slopes is not None and attention.alibi is not None:
        p = add(p, ctx.slopes)
    if code.mask == "own":
        seen = (q.shape[0], 1, q.shape[2] if attention.causal else 1, k.shape[2])
        p = filled(p, trace.new(seen, "bool", "mask"))
    if mask is not None:
        p = filled(p, mask) if code.mask == "filled" else add(p, mask)
        p = limited(p) if code.mask == "limited" else p
    sinks = attention.sinks
    scale = scale_by_sinks(p, sinks) if sinks is not None and sinks.code == "scale" else None
    if ctx.sinks is not None:
        p = trace.to(softmax_beside_own(p, ctx.sinks), q.dtype)
    elif sinks is not None and scale is None:
        p = trace.to(softmax_beside(p, sinks), v.dtype)
    elif code.softmax == "less highest":
        p = trace.to(softmax_less_highest(p), v.dtype)
    elif code.softmax == "own":
        p = trace.to(softmax(p), v.dtype)
    elif code.softmax == "weights":
        p = softmax(trace.to(p, trace.weights_format), trace.weights_format)
    else:
        p = trace.to(softmax(p, code.softmax), q.dtype)
    p = _dropped(p, attention, ctx)
    trace.until_layer_ends(p)
    made = matmul(p, v)
    if scale is not None:
        made = mul(made, trace.to(scale, made.dtype))
    return transpose(contiguous(transpose(made, 1, 2)), 1, 2)


def _scores(q: Tensor, k: Tensor, code: EagerCode) -> Tensor:
    """``Q Kᵀ``; in fp32 if the family computes it so, even under autocast."""
    trace = q.trace
    assert isinstance(trace, Interpreter)
    if code.scores:
        q, k = trace.to(q, "float32"), trace.to(k, "float32")
    with trace.no_autocast() if code.scores == "exact" else nullcontext():
        return matmul(q, transpose(k, 2, 3))


def _dropped(p: Tensor, attention: Attention, ctx: Context) -> Tensor:
    return dropout(p, "attend_dropout") if attention.dropout and ctx.drops else p


def sdpa_mask(q: Tensor, k: Tensor, mask: Tensor | None, attention: Attention, ctx: Context) -> Tensor | None:
    """Return the additive mask of sdpa, with rows padded to the kernel's alignment; None without one.

    It is a relative bias, or the mask of all layers; a boolean mask is converted in each layer.
    """
    trace, bias = q.trace, attention.bias(ctx)
    assert isinstance(trace, Interpreter)
    if bias is not None:
        from tfcalc.backends import relative  # few families have such biases

        additive = trace.lower(relative.for_sdpa(bias, mask, causal=attention.causal))
    elif mask is None:
        return None
    elif mask.dtype == "bool":
        additive = trace.new(mask.shape, trace.compute, "mask")
        trace.new(mask.shape, "bool", "not mask")  # a temporary buffer of convert_boolean_attn_mask
    else:
        additive = trace.lower(mask)
    keys = k.shape[2]
    whole = padded(keys, ALIGNED)
    if trace.numerics.aligned_masks and whole != keys:
        additive = copied(additive, (*additive.shape[:-1], whole), "pad")
    return expand(additive, *q.shape[:2], *additive.shape[-2:])


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
