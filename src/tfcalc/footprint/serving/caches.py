"""What generation keeps between steps: keys and values of the tokens so far, latent vectors, states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfcalc.core.component import Component, Node
from tfcalc.core.cost import Cached, Cost, Held
from tfcalc.core.number import Num, ceil_div, floor_div, minimum
from tfcalc.errors import InvalidModel, nearest
from tfcalc.footprint.serving.cache_formats import CacheFormat, cache_format

DYNAMIC, STATIC, PAGED = "dynamic", "static", "paged"
ALLOCATIONS = (DYNAMIC, STATIC, PAGED)
BLOCK = 16
"""Tokens of a block, as vLLM has them by default."""


class Allocation(NamedTuple):
    """Which tokens' vectors there is room for.

    ====================  =================================  =======================================
    of a layer            that sees everything               that sees a window (a chunk) of W
    ====================  =================================  =======================================
    ``dynamic``           c, the tokens so far               min(c, W − 1): what the next token needs
    ``static``            ``longest``                        min(longest, W)
    ``paged``             ⌈c/B⌉·B, whole blocks of B         min(⌈c/B⌉, ⌈W/B⌉ + 1)·B: a window rarely starts a block
    ====================  =================================  =======================================

    A source is read once and kept whole; a state is as large as it is.

    Source: transformers' DynamicSlidingWindowLayer and StaticSlidingWindowLayer (``cache_utils``), which keep chunks as
    they keep windows; vLLM's SlidingWindowSpec, for steps of one token.
    """

    how: str = DYNAMIC
    longest: Num | None = None
    block: int = BLOCK

    def tokens(self, cached: Cached) -> Num | None:
        """Of these vectors; None where they are not one for each token."""
        if cached.tokens is None or (not cached.grows and self.how != PAGED):
            return cached.tokens
        made: Num = floor_div(self._of(cached, cached.tokens), cached.every)
        return made

    def _of(self, cached: Cached, tokens: Num) -> Num:
        """So many tokens, or as many as there is room for."""
        limit = cached.limit
        if self.how == DYNAMIC:
            kept: Num = tokens if limit is None else minimum(tokens, limit - 1)
            return kept
        if self.how == STATIC:
            longest = tokens if self.longest is None else self.longest
            most: Num = longest if limit is None else minimum(longest, limit)
            return most
        blocks = ceil_div(tokens, self.block)
        if limit is not None:
            blocks = minimum(blocks, ceil_div(limit, self.block) + 1)
        room: Num = blocks * self.block
        return room


class Mixer(NamedTuple):
    """A place in the tree where something is kept: of ``copies`` layers, each time that they run.

    ``places`` are those of its layers in their stack, where they are known one by one.
    """

    path: str
    copies: Num
    cached: tuple[Cached, ...]
    places: tuple[int, ...] | None = None


def mixers(tree: Component) -> list[Mixer]:
    """All that keep something, in a tree that decodes; one for each block (an attention, a state-space mixer)."""
    found: dict[str, Mixer] = {}
    for node, block, places in _walk(tree.root(), tree.name, None):
        if node.component.own.cached:
            path = block.removeprefix(f"{tree.name}.")
            before = found.get(path, Mixer(path, node.times.run, (), places))
            found[path] = before._replace(cached=(*before.cached, *node.component.own.cached))
    return list(found.values())


def _walk(node: Node, block: str, places: tuple[int, ...] | None) -> Iterator[tuple[Node, str, tuple[int, ...] | None]]:
    """Each node, with the path of the block that it is in, and the places of the layers that it is in."""
    places = node.component.places or places
    yield node, block, places
    for below in node.below():
        yield from _walk(below, node.path if not below.component.parts else below.path, places)


def cache(
    tree: Component,
    *,
    how: str = DYNAMIC,
    format: str | CacheFormat = "bf16",
    longest: Num | None = None,
    block_size: int = BLOCK,
) -> Component:
    """The caches of a tree that decodes, ``Workload(phase="decode", batch_size=b, cached=c)``, as a tree of tensors.

    c are the tokens whose keys there are: after a prompt of l tokens l, and one more with each step. Multi-head
    attention keeps ``2·b·n·g·d·c`` numbers, latent attention ``b·n·(r + d_r)·c``, a mixer with a state as many as that
    has. ``longest`` is the room that a static cache has from the start. See :class:`Allocation`.

    Raises InvalidModel for an allocation or a format that is not known.

    Source: transformers' DynamicCache, StaticCache and EncoderDecoderCache.
    """
    if how not in ALLOCATIONS:
        raise InvalidModel(f"cache {how!r} is not known", nearest(how, ALLOCATIONS))
    stored = cache_format(format) if isinstance(format, str) else format
    return held(mixers(tree), Allocation(how, longest, block_size), stored)


def held(found: Iterable[Mixer], room: Allocation, stored: CacheFormat) -> Component:
    """The tensors of these mixers."""
    parts = tuple(
        Component(
            mixer.path,
            "cache",
            Cost(held=tuple(tensor for cached in mixer.cached for tensor in tensors(cached, room, stored))),
            copies=mixer.copies,
            places=mixer.places,
        )
        for mixer in found
    )
    return Component("cache", "cache", parts=parts)


def tensors(cached: Cached, room: Allocation, stored: CacheFormat) -> Iterator[Held]:
    """One kind of vectors, in its format; a state in that of states."""
    tokens = room.tokens(cached)
    if tokens is None:
        bits = stored.state_bits if cached.bits is None else cached.bits
        yield Held(cached.name, (cached.sequences, cached.heads, cached.width), bits)
    else:
        layout = stored.layout(cached.name).at_least(cached.bits)
        yield from layout.held(cached.name, (cached.sequences, tokens, cached.heads), cached.width)
