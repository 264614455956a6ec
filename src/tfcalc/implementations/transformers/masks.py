"""The masks of attention: of causal stacks, of windows, and of keys that are cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.value import Value

if TYPE_CHECKING:
    from tfcalc.implementations.transformers.cache import Cache, Layer
    from tfcalc.implementations.transformers.running import Running


def masks(m: Running, cache: Cache) -> Mapping[int | None, Value]:
    """By window; sdpa needs none where it can find out by itself what a query sees (transformers' masking_utils)."""
    made = {window: mask(m, layer, window) for window, layer in cache.kinds.items()}
    return {window: each for window, each in made.items() if each is not None}


def causal(m: Running, heads: Num) -> Value | None:
    """That of all layers without a window: numbers in eager attention, booleans in sdpa, if they say anything.

    Numbers in sdpa, too, for each of the ``heads``, where they are slopes times distances (ALiBi).
    """
    pairs, weights = m.stream.tokens * m.stream.length, m.t.numerics.weights
    if m.run.kernel == "eager":
        if not m.habits.masked:
            return None
        kind = "bool" if m.habits.limits_scores == "filled" else weights
        storage = m.t.new(pairs * m.habits.masks, kind, "mask")
        storage.home = tuple(m.t.module)  # one for all layers, if any keeps it
        return Value(storage, pairs, kind)
    if m.habits.masks_sdpa and m.field("alibi"):
        sloped: Num = pairs * heads
        return Value(m.t.new(sloped, weights, "mask"), sloped, weights)
    if m.habits.masks_sdpa or (m.habits.given_ones and m.t.numerics.traced):
        return Value(m.t.new(pairs, "bool", "mask"), pairs, "bool")
    return None


def windows(m: Running, stack: Component) -> Mapping[int | None, Value]:
    """Without a cache: for windows that end before a sequence does, as those alone are no mere causal mask."""
    within = {window(node.component) for node in stack.walk()} - {None}
    pairs = m.stream.tokens * m.stream.length
    return {
        size: _seen(m, m.stream.length * m.stream.length, size).view(pairs)
        for size in within
        if size is not None and m.run.kernel != "eager" and value_of(m.stream.length) >= size
    }


def window(attention: Component) -> int | None:
    """How many tokens each query of a block sees at the most; None if it has no limit."""
    limits = [leaf.own.limit for leaf in attention.parts if leaf.own.limit is not None]
    return int(value_of(limits[0])) if limits else None


def mask(m: Running, layer: Layer, window: int | None) -> Value | None:
    """Numbers that eager attention adds to its scores, for each sequence; booleans, for all of them, in sdpa."""
    new = m.stream.length
    assert isinstance(new, int)
    read, kind = layer.read(new), m.t.numerics.weights
    pairs = m.stream.batch * new * read
    if m.run.kernel == "eager":
        seen = _seen(m, new * read, window)
        return m.t.result("where", [seen], pairs, kind) if m.habits.masked else None
    return _seen(m, new * read, window).view(pairs) if layer.masked(new) else None


def _seen(m: Running, pairs: Num, window: int | None) -> Value:
    """Which keys a query sees: those at or before it, and those in its window (and_masks makes a copy each time)."""
    seen = Value(m.t.new(pairs, "bool", "mask"), pairs, "bool")
    if window is not None:
        later = m.t.copied(seen, pairs, "mask")
        seen = m.t.copied(later, pairs, "mask")
    return seen
