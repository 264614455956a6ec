"""Attention: projections, norms and positions of queries and keys, what they mix, and what becomes of the mixture."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import divide
from tfcalc.implementations.transformers.attend import Shape, mixed
from tfcalc.implementations.transformers.cache import Layer
from tfcalc.implementations.transformers.gates import gated, with_gate
from tfcalc.implementations.transformers.head_norms import heads_normed, mixture_normed
from tfcalc.implementations.transformers.masks import window
from tfcalc.implementations.transformers.rotation import all_turned, kind_of_angles, turned
from tfcalc.implementations.transformers.running import Running, by_letter, has, of_memory
from tfcalc.implementations.transformers.sinks import sinks
from tfcalc.tape.value import Value


def shape(m: Running, part: Component) -> Shape:
    """The sizes of an attention block, as its leaves tell them."""
    maps = by_letter(part)
    *_, attend = (leaf for leaf in part.parts if leaf.kind == "attend")  # DeBERTa has others before it
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
    sizes = sizes._replace(sink=sinks(m, part))
    if reuses(part):
        return _of_stored(m, part, sizes, x)
    q, k, v = projections(m, part, sizes, x)
    q, gate = with_gate(m, part, sizes.queries, q, x)
    if m.habits.clips is not None and m.field(m.habits.clips) is not None:
        q, k, v = (m.t.clipped_in_place(each) for each in (q, k, v))
    if not m.habits.norms_turned_heads:
        q, k, v = heads_normed(m, part, q, k, v)
    if has(part, "rotary"):
        q, k, v = all_turned(m, part, q, k, v)
    if m.habits.norms_turned_heads:
        q, k, v = heads_normed(m, part, q, k, v)
    if m.habits.tempers_all:
        q = tempered(m, q, q.dtype)
    before = m.shared
    if m.cache is not None:
        k, v, sizes = cached(m, m.cache.of(m), sizes, k, v)
    elif m.shared.masks:
        m.shared = before._replace(mask=before.masks.get(window(part)))
    if m.shared.stored is not None:
        m.shared.stored[window(part)] = k, v
    made = mixed(m, sizes, q, k, v)
    result = m(maps["W_O"], gated(m, part, mixture_normed(m, part, made), gate))
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


def tempered(m: Running, q: Value, kind: str) -> Value:
    """Queries times a number for each place, which grows with it (arXiv 2501.19399): keeps these numbers."""
    scales = Value(m.t.new(m.stream.length, kind, "temperatures"), m.stream.length, kind)
    return m.t.to(m.t.mul(q, scales), q.dtype)


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
    m.shared = before._replace(mask=None, looks_back=False)
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
