"""The masks of a model whose keys are cached: one for all layers with the same window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.tape.value import Value

if TYPE_CHECKING:
    from tfcalc.implementations.transformers.cache import Cache, Layer
    from tfcalc.implementations.transformers.running import Running


def masks(m: Running, cache: Cache) -> Mapping[int | None, Value]:
    """By window; sdpa needs none where it can find out by itself what a query sees (transformers' masking_utils)."""
    made = {window: mask(m, layer, window) for window, layer in cache.kinds.items()}
    return {window: each for window, each in made.items() if each is not None}


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


def _seen(m: Running, pairs: int, window: int | None) -> Value:
    """Which keys a query sees: those at or before it, and those in its window (and_masks makes a copy each time)."""
    seen = Value(m.t.new(pairs, "bool", "mask"), pairs, "bool")
    if window is not None:
        later = m.t.copied(seen, pairs, "mask")
        seen = m.t.copied(later, pairs, "mask")
    return seen
