"""What each layer of a model keeps as a serving engine sees it, and the blocks that a request takes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfcalc.blocks.keeping import CONVOLUTION
from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import Num, ceil_div, minimum, total
from tfcalc.errors import InvalidModel
from tfcalc.held.serving.cache_formats import CacheFormat, cache_format
from tfcalc.held.serving.caches import BLOCK, Mixer, mixers

FULL, SLIDING, CHUNKED, SOURCE, STATE = "full", "sliding window", "chunk", "source", "state"
BATCHED = 8192
"""Tokens that one step may run, where it is not said (vLLM's max_num_batched_tokens of a server)."""


class Engine(NamedTuple):
    """The settings that decide how much a request takes.

    ``batched`` tokens may be run in a step (max_num_batched_tokens), and ``in_flight`` such steps are under way at once
    (2 with asynchronous scheduling, since vLLM 0.26). Heads are divided among ``tensor_parallel`` ranks; what all heads
    share is on each of them. ``state_pages`` are kept of a state: one, or two where prefixes are cached at block
    boundaries ("align"). ``hybrid=False``: windows are kept whole, as without the hybrid cache manager. Where layers
    are unlike, a narrower one gets longer blocks, or its pages are ``filled`` up (as logs of Gemma 4 show).
    """

    block: int = BLOCK
    batched: int = BATCHED
    in_flight: int = 1
    tensor_parallel: int = 1
    format: str = "bf16"
    state_pages: int = 1
    hybrid: bool = True
    filled: bool = False

    @property
    def stored(self) -> CacheFormat:
        """How numbers are stored."""
        return cache_format(self.format)


class Page(NamedTuple):
    """What one layer keeps on one rank: ``bytes`` for each token, or in all where it is a state.

    ``limit`` is the window or the chunk that it sees, ``source`` the tokens of a source.
    """

    kind: str
    bytes: int
    limit: Num | None = None
    source: Num | None = None

    def blocks(self, length: Num, block: int, engine: Engine) -> Num:
        """That a request of ``length`` tokens takes at most.

        ====================  ==================================================================
        full                  ``⌈L/b⌉``
        a window of W         ``⌈min(W − 1 + T, L)/b⌉ + 1``: it need not start where a block does
        a chunk of C          ``⌈min(C + T, L)/b⌉``
        a source of S         ``⌈S/b⌉``
        a state               1, or as many as ``state_pages``
        ====================  ==================================================================

        T are the tokens of all steps under way. Source: vLLM, ``max_memory_usage_bytes`` of FullAttentionSpec,
        SlidingWindowSpec, ChunkedLocalAttentionSpec, CrossAttentionSpec and MambaSpec (v1/kv_cache_interface.py).
        """
        running, needed = engine.batched * engine.in_flight, length
        if self.kind == STATE:
            return engine.state_pages
        if self.kind == SOURCE:
            needed = self.source if self.source is not None else 0
        elif self.limit is not None:
            seen = self.limit - 1 if self.kind == SLIDING else self.limit
            needed = minimum(seen + running, length)
        pages: Num = ceil_div(needed, block) + (1 if self.kind == SLIDING else 0)
        return pages


class Layer(NamedTuple):
    """A layer of the model as the engine sees it, at its place in the stack."""

    path: str
    place: int
    page: Page


def layers(tree: Component, engine: Engine) -> list[Layer]:
    """Every layer that keeps something, in a tree that decodes, in the order of their places in their stack.

    Raises InvalidModel where their number is none, or where one keeps a key for several tokens (DeepSeek-V4).
    """
    found = []
    for mixer in mixers(tree):
        if not isinstance(mixer.copies, int):
            raise InvalidModel(f"{mixer.path}: {mixer.copies} layers", "give a number: an engine groups them")
        places = mixer.places or range(mixer.copies)
        repeated = mixer.copies // len(places) if places else 0
        for page in _pages(mixer, engine):
            found += [Layer(mixer.path, place, page) for place in places for _ in range(repeated)]
    return sorted(found, key=lambda layer: layer.place)


def _pages(mixer: Mixer, engine: Engine) -> Iterable[Page]:
    """The pages of one mixer: keys and values stand in one, and so do a convolution's inputs and a state."""
    pages: dict[Page, int] = {}
    for cached in mixer.cached:
        if cached.every > 1:
            raise InvalidModel(
                f"{mixer.path} stores one key per {cached.every} tokens",
                "such a cache cannot be paged here: use dynamic",
            )
        kind = _kind(cached, engine)
        limit = None if kind == FULL else cached.window if cached.chunk is None else cached.chunk
        page = Page(kind, 0, limit, cached.tokens if kind == SOURCE else None)
        pages[page] = pages.get(page, 0) + _bytes(cached, engine)
    return [page._replace(bytes=size) for page, size in pages.items()]


def _kind(cached: Cached, engine: Engine) -> str:
    if cached.tokens is None:
        return STATE
    if not cached.grows:
        return SOURCE
    if not engine.hybrid:
        return FULL
    return SLIDING if cached.window is not None else FULL if cached.chunk is None else CHUNKED


def _bytes(cached: Cached, engine: Engine) -> int:
    """On one rank: of one token, or of the whole state. A convolution's newest input need not be kept (vLLM)."""
    heads = ceil_div(cached.heads, engine.tensor_parallel)
    if cached.tokens is None:
        width = cached.width - 1 if cached.name == CONVOLUTION else cached.width
        size = bytes_of(heads * width, engine.stored.state_bits if cached.bits is None else cached.bits)
    else:
        vectors = engine.stored.layout(cached.name).held(cached.name, (heads,), cached.width)
        size = total(bytes_of(held.size, held.bits) for held in vectors)
    assert isinstance(size, int)
    return size


def stages(found: Sequence[Layer], count: int, n_layers: int) -> list[list[Layer]]:
    """The layers of each of ``count`` pipeline stages; what is left over goes to stages before the last.

    The stage that holds the fewest requests binds the whole. Source: vLLM, ``get_pp_indices``
    (distributed/utils.py).

    >>> [len(stage) for stage in stages([Layer("", place, Page(FULL, 1)) for place in range(27)], 2, 27)]
    [14, 13]
    """
    sizes = [n_layers // count] * count
    for back in range(n_layers % count):
        sizes[-2 - back] += 1
    found_in, start = [], 0
    for size in sizes:
        found_in.append([layer for layer in found if start <= layer.place < start + size])
        start += size
    return found_in
