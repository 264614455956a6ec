"""softmax(Q Kᵀ) V: transformers' eager code, or the kernels of scaled_dot_product_attention."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.implementations.transformers.running import Running
from tfcalc.implementations.transformers.sdpa_masks import ALIGNED, sdpa_mask
from tfcalc.implementations.transformers.sinks import scale_by_sink, softmax_beside, softmax_less_highest
from tfcalc.tape.ledger import Storage
from tfcalc.tape.operations import padded
from tfcalc.tape.value import Value

KEPT_BY_FLASH, KEPT_BY_EFFICIENT = 3, 2
"""Numbers of 8 bytes for the state of the random numbers."""
FLASH_WIDEST = 256
"""The widest heads that flash attention takes."""


class Shape(NamedTuple):
    """Sizes of all tokens' queries, keys, values, scores and mixtures: numbers of numbers; and the rows of scores."""

    queries: Num
    keys: Num
    values: Num
    scores: Num
    mixed: Num
    heads: Num
    all_keys: Num
    all_values: Num
    """Keys and values repeated for each head."""
    sink: Value | None = None

    @property
    def grouped(self) -> bool:
        """Whether heads share keys and values."""
        return self.keys != self.all_keys

    def seeing(self, all_keys: Value, new_keys: Value) -> Shape:
        """With the keys and values of earlier tokens."""

        def grown(size: Num) -> Num:
            whole: Num = divide(size * all_keys.elements, new_keys.elements)
            return whole

        return self._replace(
            keys=grown(self.keys),
            values=grown(self.values),
            scores=grown(self.scores),
            all_keys=grown(self.all_keys),
            all_values=grown(self.all_values),
        )


def mixed(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """softmax(Q Kᵀ) V; where it is computed again in backward, only q, k and v are kept.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 5.
    """
    if m.run.recompute != "selective":
        return by_kernel(m, sizes, q, k, v)
    shared = m.shared

    def run(*given: Value) -> Value:
        before, m.shared = m.shared, shared
        result = by_kernel(m, sizes, *given)
        m.shared = before
        return result

    return m.t.checkpoint(run, q, k, v)


def by_kernel(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """softmax(Q Kᵀ) V by the kernel that was asked for, or by the next that takes these heads."""
    kernel = _able(m, sizes)
    if kernel in ("eager", "math") or (m.shared.masks and _masked(m) and not m.run.decoding):  # use_gqa_in_sdpa
        k, v = repeated(m, sizes, k, v)
    if kernel == "eager":
        return eager(m, sizes, q, k, v)
    if kernel == "math":
        return math(m, sizes, q, k, v)
    return fused(m, sizes, q, k, v, flash=kernel == "flash")


def _masked(m: Running) -> bool:
    return m.shared.mask is not None


def _able(m: Running, sizes: Shape) -> str:
    """Flash attention takes no mask, and heads of one width; the memory-efficient kernel not every width.

    Without a mask transformers gives sdpa keys that heads share (``enable_gqa``), which only flash attention takes.
    Source: aten's sdp_utils.cpp. A library of kernels calls its own.
    """
    asked = m.run.kernel
    if not m.run.fused:
        return asked
    rows = m.stream.tokens * sizes.heads
    widths = {value_of(divide(each, rows)) for each in (sizes.queries, sizes.mixed)}
    if asked == "flash" and not _masked(m) and (m.habits.fused or (len(widths) == 1 and max(widths) <= FLASH_WIDEST)):
        return "flash"
    aligned = ALIGNED // 2 if m.t.numerics.compute == "float32" else ALIGNED
    shared = sizes.grouped and not _masked(m) and not m.habits.fused
    return "math" if shared or any(width % aligned for width in widths) else "efficient"


def repeated(m: Running, sizes: Shape, k: Value, v: Value) -> tuple[Value, Value]:
    """repeat_kv: keys and values once for each head that reads them; one head's alone are a view, until copied.

    Without a mask it is the kernel that does it, and always copies.
    """
    if not sizes.grouped:
        return k, v
    if (m.run.kernel == "eager" or _masked(m)) and sizes.keys * sizes.heads == sizes.all_keys:
        return m.t.broadcast(k, sizes.all_keys).view(heads=True), m.t.broadcast(v, sizes.all_values).view(heads=True)
    return m.t.copied(k, sizes.all_keys, "repeat_kv"), m.t.copied(v, sizes.all_values, "repeat_kv")


def fused(m: Running, sizes: Shape, q: Value, k: Value, v: Value, *, flash: bool) -> Value:
    """Flash attention, or the memory-efficient kernel, which takes a mask, and fills rows up to 32."""
    if not flash:
        mask = sdpa_mask(m, sizes.scores, m.stream.tokens * sizes.heads)
        rows = m.stream.batch * padded(m.stream.length) * sizes.heads if m.t.gradients else 0
        return m.t.fused_attention(q, k, v, rows, sizes.mixed, KEPT_BY_EFFICIENT, mask)
    rows = m.stream.tokens * sizes.heads
    width = divide(sizes.queries, rows)
    if value_of(width) % ALIGNED:
        return _filled_up(m, sizes, (q, k, v), rows, width)
    made = m.t.fused_attention(q, k, v, rows, sizes.mixed, KEPT_BY_FLASH)
    if not q.heads and value_of(sizes.heads) > 1:  # the result lies in memory as the queries do
        return m.t.contiguous(made.view(heads=True))
    return made


def _filled_up(m: Running, sizes: Shape, given: tuple[Value, ...], rows: Num, width: Num) -> Value:
    """Flash attention of copies whose heads are as wide as the kernel wants them; of its result a part is copied.

    Source: pad_last_dim in torch's aten/src/ATen/native/transformers/attention.cpp.
    """
    whole = padded(width, ALIGNED)
    q, k, v = (m.t.copied(m.t.lower(each), divide(each.elements * whole, width), "pad") for each in given)
    made = m.t.fused_attention(q, k, v, rows, divide(sizes.mixed * whole, width), KEPT_BY_FLASH)
    return m.t.copied(made, sizes.mixed, "slice")


def math(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """scaled_dot_product_attention's own products, all in fp32 (_scaled_dot_product_attention_math)."""
    t = m.t
    mask = sdpa_mask(m, sizes.scores, m.stream.tokens * sizes.heads)
    mask = None if mask is None else t.to(mask, "float32")
    q, k, v = (t.to(t.lower(each), "float32") for each in (q, k, v))
    causal = _causal(m) if mask is None and m.shared.looks_back and not m.run.decoding else None
    with t.no_autocast():
        scaled_q = t.scaled(q)  # those in fp32 are held until the end
        p = t.matmul(scaled_q, t.scaled(k), sizes.scores)
        if mask is not None:
            p = t.add(p, mask)
        p = t.softmax(p, "float32")
        del causal
        o = t.matmul(m.dropped(p, m.habits.dropped_scores), v, sizes.mixed)
    return t.to(o, t.numerics.compute)


def _causal(m: Running) -> Storage:
    """The mask that it makes of ``is_causal``, in fp32."""
    return m.t.new(m.stream.length * m.stream.length, "float32", "causal mask")


def eager(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """Transformers' eager_attention_forward."""
    t, rows = m.t, m.stream.tokens * sizes.heads
    p = m.capped(t.scaled(_scores(m, sizes, q, k)), m.habits.capped_scores)
    if m.shared.mask is not None and m.habits.limits_scores == "filled":
        p = t.result("masked_fill", [p], p.elements, p.dtype, saves=[m.shared.mask])
    elif m.shared.mask is not None:
        p = t.add(p, m.shared.mask, p.elements)
    scale = None
    if sizes.sink is not None and m.habits.sinks == "scale":
        scale = scale_by_sink(m, p, sizes.sink, rows)
    if sizes.sink is not None and scale is None:
        p = t.to(softmax_beside(m, p, sizes.sink, rows), v.dtype)
    elif m.habits.softmax == "scores - row maximum":
        p = t.to(softmax_less_highest(m, p, rows), v.dtype)
    elif m.habits.softmax == "stream":
        p = t.softmax(t.to(p, t.numerics.weights), t.numerics.weights)
    elif m.habits.softmax == "float32":
        p = t.to(t.softmax(p, "float32"), q.dtype)
    else:
        p = t.to(t.softmax(p), v.dtype)
    p = m.dropped(p, m.habits.dropped_scores)
    m.until_layer_ends.append(p)
    made = t.matmul(p, v, sizes.mixed)
    if scale is not None:
        made = t.mul(made, t.to(scale, made.dtype), sizes.mixed)
    return t.contiguous(made.view(heads=True))


def _scores(m: Running, sizes: Shape, q: Value, k: Value) -> Value:
    """``Q Kᵀ``, where the family wants it in fp32, even under autocast."""
    if not m.habits.scores_in_float32:
        return m.t.matmul(q, k, sizes.scores)
    return m.t.matmul(m.t.to(q, "float32"), m.t.to(k, "float32"), sizes.scores)
