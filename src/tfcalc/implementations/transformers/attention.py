"""Attention: projections, positions, and one of PyTorch's four ways to mix the values."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.implementations.transformers.behind_heads import behind_heads
from tfcalc.implementations.transformers.cache import Layer
from tfcalc.implementations.transformers.differential import difference, is_differential
from tfcalc.implementations.transformers.head_norms import heads_normed
from tfcalc.implementations.transformers.masks import window
from tfcalc.implementations.transformers.relative_bias import is_relative, own_bias
from tfcalc.implementations.transformers.rotation import both_turned, kind_of_angles, turned
from tfcalc.implementations.transformers.running import Running, by_letter, has, of_kind, of_memory
from tfcalc.implementations.transformers.sdpa_masks import ALIGNED, sdpa_mask
from tfcalc.implementations.transformers.sinks import scale_of_sink, sinks, softmax_beside
from tfcalc.tape.ledger import Storage
from tfcalc.tape.operations import padded
from tfcalc.tape.value import Value

KEPT_BY_FLASH, KEPT_BY_EFFICIENT = 3, 2
"""Numbers of 8 bytes for the state of the random numbers."""


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


def shape(m: Running, part: Component) -> Shape:
    """The sizes of an attention block, as its leaves tell them."""
    maps, attend = by_letter(part), of_kind(part, "attend")
    a, d_k = attend.own.products[0].factors[-2:]
    d_v = attend.own.products[1].factors[-1]
    stream = m.stream
    source = (m.shared.memory_of if of_memory(part) else None) or stream
    if reuses(part):
        k, v = (divide(each.elements, source.tokens) for each in (m.shared.stored or {})[window(part)])
    elif "W_K" in maps:  # where no map makes values, they are the keys
        k, v = (maps.get(letter, maps["W_K"]).own.weights[0].shape[1] for letter in ("W_K", "W_V"))
    elif "W_KV" in maps:
        k = v = divide(maps["W_KV"].own.weights[0].shape[1], 2)
    else:
        both = maps["W_QKV"].own.weights[0].shape[1] - a * d_k
        k, v = divide(both, 2), divide(both, 2)
    tokens, seen = stream.tokens, source.tokens
    return Shape(
        queries=tokens * a * d_k,
        keys=seen * k,
        values=seen * v,
        scores=stream.tokens * source.length * a,
        mixed=tokens * a * d_v,
        heads=a,
        all_keys=seen * a * d_k,
        all_values=seen * a * d_v,
    )


def attention(m: Running, part: Component, x: Value) -> Value:
    """Queries, keys and values; their rotation; the mixture; the projection of it."""
    sizes, maps = shape(m, part), by_letter(part)
    if of_memory(part) and m.shared.memory is not None:
        return _of_memory(m, part, sizes, x)
    for table in filter(is_relative, part.parts):
        own_bias(m, table)
    sizes = sizes._replace(sink=sinks(m, part))
    if reuses(part):
        return _of_stored(m, part, sizes, x)
    q, k, v = projections(m, part, sizes, x)
    if m.habits.clips is not None and m.field(m.habits.clips) is not None:
        q, k, v = (m.t.clipped_in_place(each) for each in (q, k, v))
    if not m.habits.norms_turned_heads:
        q, k, v = heads_normed(m, part, q, k, v)
    if has(part, "rotary"):
        q, k = both_turned(m, part, q, k)
    if m.habits.norms_turned_heads:
        q, k, v = heads_normed(m, part, q, k, v)
    if m.habits.scales_queries:
        q = scaled_by_position(m, q)
    before = m.shared
    if m.cache is not None:
        k, v, sizes = cached(m, m.cache.of(m), sizes, k, v)
    elif m.shared.masks:
        m.shared = before._replace(mask=before.masks.get(window(part)))
    if m.shared.stored is not None:
        m.shared.stored[window(part)] = k, v
    if is_differential(part):
        made = difference(m, part, v, lambda half: mixed(m, sizes, q, k, half))
    else:
        made = mixed(m, sizes, q, k, v)
    result = m(maps["W_O"], behind_heads(m, part, x, made))
    m.shared = before
    return result


def reuses(part: Component) -> bool:
    """Whether it makes nothing but queries: its keys and values are those of an earlier layer of its kind."""
    return by_letter(part).keys() == {"W_Q", "W_O"}


def _of_stored(m: Running, part: Component, sizes: Shape, x: Value) -> Value:
    """Attention to an earlier layer's keys and values, which that has normed and rotated."""
    before, stored = m.shared, m.shared.stored or {}
    maps, (k, v) = by_letter(part), stored[window(part)]
    (q,) = heads_normed(m, part, m(maps["W_Q"], x).view(heads=not m.run.decoding))
    q = turned(m, part, q, m.shared.angles[kind_of_angles(m, part)])
    if m.shared.masks:
        m.shared = before._replace(mask=before.masks.get(window(part)))
    result = m(maps["W_O"], mixed(m, sizes, q, k, v))
    m.shared = before
    return result


def scaled_by_position(m: Running, q: Value) -> Value:
    """Queries times a number for each position, which grows with it (Llama 4's scale of long texts)."""
    scale = Value(m.t.new(m.stream.length, q.dtype, "scale"), m.stream.length, q.dtype)
    return m.t.mul(q, scale)


def cached(m: Running, layer: Layer, sizes: Shape, k: Value, v: Value) -> tuple[Value, Value, Shape]:
    """All keys and values so far, and the mask that goes with them; without one, queries of a prompt see just that."""
    new, mask = m.stream.length, m.shared.masks.get(layer.kind.window)
    assert isinstance(new, int)
    all_k, all_v = layer.update(m.t, k, v, new)
    m.shared = m.shared._replace(mask=mask)
    if mask is None and m.run.kernel != "eager" and not m.run.decoding:
        return all_k.view(k.elements), all_v.view(v.elements), sizes
    return all_k, all_v, sizes.seeing(all_k, k)


def _of_memory(m: Running, part: Component, sizes: Shape, x: Value) -> Value:
    """Attention to what the encoder made: neither causal nor masked."""
    before = m.shared
    m.shared = before._replace(mask=None, bias=before.memory_bias, looks_back=False)
    q, k, v = projections(m, part, sizes, x)
    result = m(by_letter(part)["W_O"], mixed(m, sizes, q, k, v))
    m.shared = before
    return result


def projections(m: Running, part: Component, sizes: Shape, x: Value) -> tuple[Value, Value, Value]:
    """One map each, or one for all three, of which they are views."""
    maps = by_letter(part)
    source = m.shared.memory if of_memory(part) and m.shared.memory is not None else x
    if "W_QKV" in maps:
        q, k, v = m.t.split(m(maps["W_QKV"], x), [sizes.queries, sizes.keys, sizes.values])
        if m.habits.indexes and (sizes.keys * sizes.heads == sizes.all_keys or m.field("new_decoder_architecture")):
            k, v = _indexed(m, k), _indexed(m, v)
    elif "W_KV" in maps:
        q, (k, v) = m(maps["W_Q"], x), m.t.split(m(maps["W_KV"], source), [sizes.keys, sizes.values])
    else:
        q, k = m(maps["W_Q"], x), m(maps["W_K"], source)
        v = m(maps["W_V"], source) if "W_V" in maps else k
    heads = not m.run.decoding  # of one token they stand in one piece
    return q.view(heads=heads), k.view(heads=heads), v.view(heads=heads)


def _indexed(m: Running, x: Value) -> Value:
    """A copy of what a list of one number picks; the number is kept."""
    place = Value(m.t.new(1, "int64", "index"), 1, "int64")
    return m.t.result("index", [x], x.elements, x.dtype, saves=[place])


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
    """softmax(Q Kᵀ) V by the kernel that was asked for."""
    if m.run.fused and _fits(m, sizes):
        if m.shared.masks and m.shared.mask is not None and not m.run.decoding:  # use_gqa_in_sdpa, pack_gqa
            k, v = repeated(m, sizes, k, v)
        return fused(m, sizes, q, k, v)
    k, v = repeated(m, sizes, k, v)
    return eager(m, sizes, q, k, v) if m.run.kernel == "eager" else math(m, sizes, q, k, v)


def _fits(m: Running, sizes: Shape) -> bool:
    """Whether a fused kernel takes heads of this width: the memory-efficient one, which a mask needs, not every one."""
    if m.run.kernel == "flash" and m.shared.mask is None and m.shared.bias is None:
        return True
    width = divide(sizes.queries, m.stream.tokens * sizes.heads)
    return value_of(width) % (ALIGNED // 2 if m.t.numerics.compute == "float32" else ALIGNED) == 0


def repeated(m: Running, sizes: Shape, k: Value, v: Value) -> tuple[Value, Value]:
    """repeat_kv: keys and values once for each head that reads them; one head's alone are a view, until copied."""
    if not sizes.grouped:
        return k, v
    if m.run.kernel == "eager" and sizes.keys * sizes.heads == sizes.all_keys:
        return m.t.broadcast(k, sizes.all_keys).view(heads=True), m.t.broadcast(v, sizes.all_values).view(heads=True)
    return m.t.copied(k, sizes.all_keys, "repeat_kv"), m.t.copied(v, sizes.all_values, "repeat_kv")


def fused(m: Running, sizes: Shape, q: Value, k: Value, v: Value) -> Value:
    """Flash attention, which takes no mask, and the memory-efficient kernel, which fills rows up to 32."""
    mask = sdpa_mask(m, sizes.scores, m.stream.tokens * sizes.heads)
    flash = m.run.kernel == "flash" and mask is None
    if flash:
        rows, state = m.stream.tokens * sizes.heads, KEPT_BY_FLASH
    else:
        rows, state = m.stream.batch * padded(m.stream.length) * sizes.heads, KEPT_BY_EFFICIENT
        rows = rows if m.t.gradients else 0
    width = divide(sizes.queries, m.stream.tokens * sizes.heads)
    if flash and value_of(width) % ALIGNED:
        return _filled_up(m, sizes, (q, k, v), rows, width)
    made = m.t.fused_attention(q, k, v, rows, sizes.mixed, state, mask)
    if flash and not q.heads:  # the result lies in memory as the queries do
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
    t = m.t
    p = m.capped(t.scaled(_scores(m, sizes, q, k)), m.habits.capped_scores)
    if m.shared.bias is not None:
        p = t.add(p, t.broadcast(m.shared.bias, p.elements))
    if m.shared.mask is not None and m.habits.limits_scores == "filled":
        p = t.result("masked_fill", [p], p.elements, p.dtype, saves=[m.shared.mask])
    elif m.shared.mask is not None:
        p = t.add(p, m.shared.mask, p.elements)
    if m.habits.limits_scores == "max":
        p = t.result("max", [p], p.elements, p.dtype, saves=[p, Value(t.new(1, "float32"), 1, "float32")])
    rows, scale = m.stream.tokens * sizes.heads, None
    if sizes.sink is not None and m.habits.sinks == "scale":
        scale = scale_of_sink(m, p, rows)
        p = t.to(t.softmax(p, "float32"), q.dtype)
    elif sizes.sink is not None:
        p = t.to(softmax_beside(m, p, sizes.sink, rows), v.dtype)
    elif m.habits.softmax == "stream":
        p = t.softmax(t.to(p, t.numerics.weights), t.numerics.weights)
    elif m.habits.softmax == "float32":
        p = t.to(t.softmax(p, "float32"), q.dtype)
    else:
        p = t.to(t.softmax(p), v.dtype)
    p = m.dropped(p, m.habits.dropped_scores)
    m.until_layer_ends.append(p)
    made = t.matmul(p, v, sizes.mixed)
    return t.contiguous((made if scale is None else t.mul(made, t.to(scale, made.dtype))).view(heads=True))


def _scores(m: Running, sizes: Shape, q: Value, k: Value) -> Value:
    """``Q Kᵀ``, where the family wants it in fp32, even under autocast."""
    if not m.habits.scores_in_float32:
        return m.t.matmul(q, k, sizes.scores)
    return m.t.matmul(m.t.to(q, "float32"), m.t.to(k, "float32"), sizes.scores)
