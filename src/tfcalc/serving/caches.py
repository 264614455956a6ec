"""Caches of generation (keys and values of the tokens so far, latent vectors, states), and how numbers are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import lcm

from tfcalc.core.component import Cached, Component, Cost, Held, Node
from tfcalc.core.measure import bytes_held
from tfcalc.core.number import Num, ceil_div, floor_div, minimum, total
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import BF16, FLOATS_ELSEWHERE, FP4, FP8, FP16, FP32, INT8, NVFP4
from tfcalc.ops.work import CONVOLUTION, INDEX, LATENT, ROTATED

UNQUANTIZED = 16
"""Bits from which a format stores numbers as they are computed."""


class VectorFormat(NamedTuple):
    """``bits`` for each number of a vector, and one scale of ``scale_bits`` for every ``group`` of them, or for all."""

    bits: int
    scale_bits: int = 0
    group: int | None = None

    def at_least(self, bits: int | None) -> VectorFormat:
        """Return it with at least ``bits`` bits for each number, unless it is quantized."""
        return self if bits is None or self.bits < UNQUANTIZED else VectorFormat(max(self.bits, bits))

    def held(self, name: str, times: tuple[Num, ...], width: Num) -> Iterator[Held]:
        """Vectors of ``width`` numbers, and their scales; ``times`` is how many."""
        yield Held(name, (*times, width), self.bits)
        if self.scale_bits:
            scales = 1 if self.group is None else ceil_div(width, self.group)
            yield Held(f"scales of {name}", (*times, scales), self.scale_bits)


class CacheFormat(NamedTuple):
    """A named way to store the vectors of tokens: ``each`` as it says, those of ``others`` as it says there.

    States of whole sequences are never stored like this: they have ``state_bits``, unless they are fp32 anyway.
    """

    name: str
    each: VectorFormat
    others: tuple[tuple[str, VectorFormat], ...] = ()
    state_bits: int = BF16.bits
    only: frozenset[str] | None = None

    def layout(self, name: str) -> VectorFormat:
        """Storage of the vectors of this name. Raises InvalidModel where the format has none."""
        if self.only is not None and name not in self.only:
            raise InvalidModel(f"cache format {self.name} for {name}", "it is for latent attention only: use fp8")
        return dict(self.others).get(name, self.each)


CACHES_ELSEWHERE = {**FLOATS_ELSEWHERE, "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}
"""Engines' names of formats: vLLM's and SGLang's --kv-cache-dtype."""
FORMATS: dict[str, CacheFormat] = {
    one.name: one
    for one in (
        CacheFormat("fp32", VectorFormat(FP32.bits), state_bits=FP32.bits),
        CacheFormat("bf16", VectorFormat(BF16.bits)),
        CacheFormat("fp16", VectorFormat(FP16.bits)),
        # one scale for a whole layer, which nobody counts (vLLM's kv_cache_dtype "fp8")
        CacheFormat("fp8", VectorFormat(FP8.bits)),
        CacheFormat("int8", VectorFormat(INT8.bits)),
        # an fp32 scale for each token and head, of keys and of values: 2·4 B (vLLM's "fp8_per_token_head")
        CacheFormat("fp8-per-token", VectorFormat(FP8.bits, FP32.bits)),
        CacheFormat("int8-per-token", VectorFormat(INT8.bits, FP32.bits)),
        # 4 bits a number and an fp8 scale for each 16 of them: d/2 + d/16 B
        CacheFormat("nvfp4", VectorFormat(FP4.bits, NVFP4.scales, NVFP4.numbers)),
        # blocks of 32 numbers with an fp16 scale, of q4_1 and q5_1 with an fp16 minimum too (llama.cpp's ggml types)
        CacheFormat("q8_0", VectorFormat(8, FP16.bits, 32)),
        CacheFormat("q5_1", VectorFormat(5, 2 * FP16.bits, 32)),
        CacheFormat("q5_0", VectorFormat(5, FP16.bits, 32)),
        CacheFormat("q4_1", VectorFormat(4, 2 * FP16.bits, 32)),
        CacheFormat("q4_0", VectorFormat(4, FP16.bits, 32)),
        # 512 fp8 numbers with 4 fp32 scales and 64 bf16 rotated ones: 656 B a token (DeepSeek's FlashMLA; vLLM);
        # the indexer's keys are fp8 with an fp32 scale for each 128 of them
        CacheFormat(
            "fp8_ds_mla",
            VectorFormat(FP8.bits, FP32.bits, 128),
            others=((ROTATED, VectorFormat(BF16.bits)),),
            only=frozenset({LATENT, ROTATED, INDEX}),
        ),
    )
}
"""The formats there are, by name. Source: vLLM's kv_cache_interface (page_size_bytes of each kind of layer)."""
OF_EVERY_ENGINE = ("auto", "fp32", "bf16", "fp16")
OF_LLAMA_CPP = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
"""Formats that no other engine stores, and the only ones of few bits that llama.cpp does: its --cache-type-k."""


def cache_format(name: str) -> CacheFormat:
    """The format of this name. Raises InvalidModel for others."""
    if name not in FORMATS:
        raise InvalidModel(f"cache format {name!r} is not known", nearest(name, FORMATS))
    return FORMATS[name]


DYNAMIC, STATIC, PAGED, CELLS = "dynamic", "static", "paged", "cells"
ALLOCATIONS = (DYNAMIC, STATIC, PAGED, CELLS)
CELLS_AT_A_TIME, UBATCH = 256, 512
"""llama.cpp's caches have a multiple of so many cells; a step runs up to n_ubatch tokens."""
BLOCK = 16
"""Tokens of a block, as vLLM has them by default."""


class Allocation(NamedTuple):
    """Allocation of a cache: the tokens for whose vectors it has room.

    ====================  =================================  =======================================
    of a layer            that sees everything               that sees a window (a chunk) of W
    ====================  =================================  =======================================
    ``dynamic``           c, the tokens so far               min(c, W − 1): what the next token needs
    ``static``            ``longest``                        min(longest, W)
    ``paged``             ⌈c/B⌉·B, whole blocks of B         min(⌈c/B⌉, ⌈W/B⌉ + 1)·B: a window rarely starts a block
    ``cells``             ⌈c/256⌉·256                        ⌈min(c, W + 512)/256⌉·256: a step's tokens beside a window
    ====================  =================================  =======================================

    A source is read once and stored whole; the size of a state does not depend on tokens.

    Source: transformers' DynamicSlidingWindowLayer and StaticSlidingWindowLayer (``cache_utils``), which keep chunks as
    they keep windows; vLLM's SlidingWindowSpec, for steps of one token; llama.cpp's llama_kv_cache_iswa.
    """

    how: str = DYNAMIC
    longest: Num | None = None
    block: int = BLOCK

    def tokens(self, cached: Cached) -> Num | None:
        """Number of vectors; None where there is not one for each token."""
        if cached.tokens is None or (not cached.grows and self.how not in (PAGED, CELLS)):
            return cached.tokens
        made: Num = floor_div(self._of(cached, cached.tokens), cached.every)
        return made

    def _of(self, cached: Cached, tokens: Num) -> Num:
        """Room for ``tokens`` tokens, within the layer's limit."""
        limit = cached.limit
        if self.how == DYNAMIC:
            kept: Num = tokens if limit is None else minimum(tokens, limit - 1)
            return kept
        if self.how == STATIC:
            longest = tokens if self.longest is None else self.longest
            most: Num = longest if limit is None else minimum(longest, limit)
            return most
        if self.how == CELLS:
            seen = tokens if limit is None else minimum(tokens, limit + UBATCH)
            cells: Num = ceil_div(seen, CELLS_AT_A_TIME) * CELLS_AT_A_TIME
            return cells
        blocks = ceil_div(tokens, self.block)
        if limit is not None:
            blocks = minimum(blocks, ceil_div(limit, self.block) + 1)
        room: Num = blocks * self.block
        return room


class Mixer(NamedTuple):
    """Attention or state-space mixer with a cache: of ``copies`` layers, each time that they run.

    ``places`` are those of its layers in their stack, where they are known one by one.
    """

    path: str
    copies: Num
    cached: tuple[Cached, ...]
    places: tuple[int, ...] | None = None


def mixers(tree: Component) -> list[Mixer]:
    """Mixers with a cache in a tree that decodes."""
    found: dict[str, Mixer] = {}
    for node, block, places in _walk(tree.root(), tree.name, None):
        if node.component.own.cached:
            path = block.removeprefix(f"{tree.name}.")
            before = found.get(path, Mixer(path, node.times.run, (), places))
            found[path] = before._replace(cached=(*before.cached, *node.component.own.cached))
    return list(found.values())


def _walk(node: Node, block: str, places: tuple[int, ...] | None) -> Iterator[tuple[Node, str, tuple[int, ...] | None]]:
    """Yield each node, with the path of the block that it is in, and the places of the layers that it is in."""
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
    block: int = BLOCK,
) -> Component:
    """Caches of a tree that decodes, ``Workload(phase="decode", batch_size=b, cached=c)``, as a tree of tensors.

    c is the number of tokens with cached keys: l after a prompt of l tokens, and one more with each step. Multi-head
    attention stores ``2·b·n·g·d·c`` numbers, latent attention ``b·n·(r + d_r)·c``, a mixer with a state the numbers of
    that. ``longest`` is the room that a static cache has from the start. See :class:`Allocation`.

    Raises InvalidModel for an allocation or a format that is not known.

    Source: transformers' DynamicCache, StaticCache and EncoderDecoderCache.
    """
    if how not in ALLOCATIONS:
        raise InvalidModel(f"cache {how!r} is not known", nearest(how, ALLOCATIONS))
    stored = cache_format(format) if isinstance(format, str) else format
    return held(mixers(tree), Allocation(how, longest, block), stored)


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
        bits, newest = stored.state_bits if cached.bits is None else cached.bits, 0
        if room.how == CELLS:  # states are fp32 there, and a convolution's newest input is not stored
            bits, newest = FP32.bits, int(cached.name == CONVOLUTION)
        yield Held(cached.name, (cached.sequences, cached.heads, cached.width - newest), bits)
    else:
        layout = stored.layout(cached.name).at_least(cached.bits)
        yield from layout.held(cached.name, (cached.sequences, tokens, cached.heads), cached.width)


class CacheGrowth(NamedTuple):
    """The bytes that ``tokens`` more tokens add to the cache of a request: by the path of each mixer that has one."""

    tokens: int
    by_mixer: dict[str, int]

    @property
    def per_token(self) -> int:
        """Bytes of a token, in all layers."""
        return sum(self.by_mixer.values()) // self.tokens


def growth_of(found: Sequence[Mixer], kv: str) -> CacheGrowth:
    """Growth of these mixers' caches in this format, by as many tokens of one request as all layers store together."""
    growing = [one for mixer in found for one in mixer.cached if one.tokens is not None and one.grows]
    tokens = lcm(*(value_of(one.every) for one in growing))
    by_mixer: dict[str, int] = {}
    for mixer in found:
        kept = tuple(
            one._replace(sequences=1, tokens=tokens, window=None, chunk=None) for one in mixer.cached if one in growing
        )
        amount = value_of(_held_by(mixer, kept, kv))
        by_mixer[mixer.path] = by_mixer.get(mixer.path, 0) + amount
    return CacheGrowth(tokens, by_mixer)


class FullWindows(NamedTuple):
    """Layers that keep no more than the last ``tokens`` of a request; a further one adds ``per_token`` in the others.

    Where layers differ, tokens are those of the longest window: from there on none of these caches grows. A layer that
    has a window beside a cache that grows (DeepSeek-V4's summaries of earlier tokens) is one of the others.
    """

    layers: int
    tokens: int
    per_token: int


def full_windows(found: Sequence[Mixer], kv: str) -> FullWindows | None:
    """Return the windows of these mixers, full; None where there are none."""
    layers, longest = 0, 0
    growing = ((mixer, tuple(one for one in mixer.cached if one.grows and one.limit is None)) for mixer in found)
    others = [mixer._replace(cached=caches) for mixer, caches in growing if caches]
    for mixer in found:
        if any(f"{each.path}.".startswith(f"{mixer.path}.") for each in others):
            continue
        limits = [value_of(one.limit) for one in mixer.cached if one.grows and one.limit is not None]
        layers += value_of(mixer.copies) if limits else 0
        longest = max(longest, *limits, 0)
    if not layers:
        return None
    return FullWindows(layers, longest, growth_of(others, kv).per_token if others else 0)


def states_of_sequence(found: Sequence[Mixer], kv: str) -> Num:
    """Bytes of the states of one request, whatever its length."""
    of_one = ((each, tuple(one._replace(sequences=1) for one in each.cached if one.tokens is None)) for each in found)
    return total(_held_by(mixer, states, kv) for mixer, states in of_one)


def _held_by(mixer: Mixer, cached: tuple[Cached, ...], kv: str) -> Num:
    alone = Mixer(mixer.path, mixer.copies, cached)
    return held([alone], Allocation(), cache_format(kv)).total(bytes_held)
