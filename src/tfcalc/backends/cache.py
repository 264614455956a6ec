"""The cache of a model that generates: what each layer's attention keeps, and the new memory that a step takes.

After transformers' ``cache_utils``. Unlike the numbers of a cache by themselves
(:mod:`tfcalc.serving.caches`), these are tensors on a trace: a copy that makes room for one more token stands
beside the old one for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.errors import InvalidModel, nearest
from tfcalc.ops.keeping import LATENT, ROTATED
from tfcalc.ops.shapes import cat, copied, narrow
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor

CACHE = "cache"
"""What its memory is called."""

KEPT = (("K", "V"), (LATENT, ROTATED))
"""What a layer's two tensors can be: keys and values, or what latent attention makes these of at each step."""


MOST = 1_000
"""Blocks of the largest cache that is followed: each of them has tensors of its own."""


class Kind(NamedTuple):
    """Of a layer: sequences, heads and widths of keys and values, and how many tokens a query sees."""

    sequences: int
    heads: int
    widths: tuple[int, int]
    window: int | None = None


class Layer:
    """Keys and values that grow by a copy of all of them (DynamicLayer). ``tokens`` have been seen so far."""

    in_place = False

    def __init__(self, kind: Kind, longest: int) -> None:
        self.kind = kind
        self.longest = longest
        self.tokens = 0
        self.held: tuple[Tensor, Tensor] | None = None

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add what these tokens made; what attention reads. The first time the copy is of them alone."""
        self.tokens += _tokens(k)
        self.held = self.grown(k, v)
        return self.held

    def grown(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Old and new beside each other, in new memory; the old keys go before the values are copied."""
        if self.held is None:
            return cat([k], 2, CACHE), cat([v], 2, CACHE)
        keys, values = self.held
        self.held = None
        k = cat([keys, k], 2, CACHE)
        del keys
        return k, cat([values, v], 2, CACHE)

    def read(self, new: int) -> int:
        """How many tokens' keys the next queries find (get_mask_sizes)."""
        return self.tokens + new

    def masked(self, new: int) -> bool:
        """Whether sdpa needs a mask to see the right ones (_ignore_causal_mask_sdpa, without padding).

        It does where a window is shorter than what is read, and where buffers have room for later tokens; but a
        prompt's queries, the first to come, can do with the kernel's own causal mask.
        """
        window = self.kind.window
        return (window is not None and self.read(new) >= window) or (self.in_place and self.tokens > 0)

    def filled(self, trace: Interpreter, tokens: int) -> None:
        """As a prompt of so many tokens leaves it."""
        b, g, (wide, other), _ = self.kind
        self.update(*(trace.new((b, g, tokens, width), trace.compute, CACHE) for width in (wide, other)))

    @property
    def size(self) -> int:
        """Bytes that the keys and values are, without more of a prompt that their memory may hold."""
        return sum(each.elements * WIDTHS[each.dtype] for each in self.held or ())  # type: ignore[misc]  # numbers


class Sliding(Layer):
    """The last ``window − 1`` tokens: a view of all that attention has just read (DynamicSlidingWindowLayer)."""

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Both copies are made before the old keys are let go of."""
        self.tokens += _tokens(k)
        before = self.held
        k, v = self.grown(k, v)
        del before
        stays = min(self.tokens, _window(self.kind) - 1)
        self.held = narrow(k, stays, 2), narrow(v, stays, 2)
        return k, v

    def read(self, new: int) -> int:
        """Those in the cache and the new ones."""
        return min(self.tokens, _window(self.kind) - 1) + new


class Static(Layer):
    """Buffers, made with the first token and written in place (StaticLayer, StaticSlidingWindowLayer)."""

    in_place = True

    @property
    def room(self) -> int:
        """How many tokens they hold: the longest sequence, or the window where that is less."""
        return self.longest if self.kind.window is None else min(self.longest, self.kind.window)

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """What attention reads are the whole buffers.

        A prompt longer than the window is read as it is; then the buffers are rolled by one token, through a copy.
        """
        before, self.tokens = self.tokens, self.tokens + _tokens(k)
        if self.held is None:
            b, g, (wide, other), _ = self.kind
            keys, values = (k.trace.new((b, g, self.room, width), k.dtype, CACHE) for width in (wide, other))
            self.held = keys, values
        if self.tokens > self.room and not before:
            return k, v
        if self.tokens > self.room:
            rolled = [copied(each, name="roll") for each in self.held]
            del rolled
        return self.held

    def read(self, new: int) -> int:
        """All, also those that are not there yet."""
        return max(self.room, new)


LAYERS: dict[str, tuple[type[Layer], type[Layer]]] = {"dynamic": (Layer, Sliding), "static": (Static, Static)}
"""By how the cache is made: a layer that sees everything, and one that sees a window."""


class Cache:
    """The layers of a model's cache, by the paths of the blocks that they belong to.

    ``tree`` is the model that decodes: its attention tells what it keeps. Raises InvalidModel for a kind of cache that
    is not known, and for models that keep something else than keys and values of their own tokens.
    """

    def __init__(self, tree: Component, how: str = "dynamic", longest: int = 0) -> None:
        if how not in LAYERS:
            raise InvalidModel(f"cache {how!r} cannot be run", nearest(how, LAYERS))
        self.layers: dict[str, Layer] = {}
        for path, cached in blocks(tree, tree.name):
            kind = _kind(path, cached)
            if how == "static" and cached[0].name == LATENT:
                raise InvalidModel(f"static cache for {path}, which caches latent vectors", "use a dynamic cache")
            self.layers[path] = LAYERS[how][kind.window is not None](kind, longest)
        if len(self.layers) > MOST:
            raise InvalidModel(
                f"a {how} cache of {len(self.layers):,} layers has too many to follow one by one",
                f"give at most {MOST:,} layers, or use a paged cache",
            )
        if not self.layers:
            raise InvalidModel(f"{tree.name} has no KV cache", "use a model that generates")

    def filled(self, trace: Interpreter, tokens: int) -> None:
        """As a prompt of so many tokens leaves it, in all layers."""
        for layer in self.layers.values():
            layer.filled(trace, tokens)

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return sum(layer.size for layer in self.layers.values())

    @property
    def kinds(self) -> dict[int | None, Layer]:
        """A layer for each window: they all read the same number of tokens."""
        return {layer.kind.window: layer for layer in self.layers.values()}

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """That of the block that runs. Raises InvalidModel."""
        assert isinstance(k.trace, Interpreter)
        path = k.trace.tape.path
        if path not in self.layers:
            raise InvalidModel(f"{path} has no KV cache", "only modules with a cache are supported")
        layer = self.layers[path]
        stays = layer.in_place and layer.held is not None
        read = layer.update(k, v)
        if not stays and (alike := k.trace.stands_for):  # what this layer has is counted for all of them
            for other in alike[1:]:
                self.layers[other + path.removeprefix(alike[0])].held = layer.held
        return read


def blocks(part: Component, path: str) -> Iterator[tuple[str, tuple[Cached, ...]]]:
    """What each block keeps, by the path that it has while the model runs layer by layer."""
    cached = tuple(each for leaf in part.parts for each in leaf.own.cached)
    if cached:
        yield path, cached
    for below in part.parts:
        inside = list(blocks(below, ""))
        for name in _names(below) if inside and below.kind == "layer" else (below.name,):
            yield from ((f"{path}.{name}{end}", cached) for end, cached in inside)


def _names(layers: Component) -> Iterator[str]:
    """Those of the layers that a component stands for, one by one."""
    stack = layers.name.partition("[")[0]
    assert isinstance(layers.copies, int)
    places = range(layers.under, layers.under + layers.copies) if layers.places is None else layers.places
    return (f"{stack}.{place}" for place in places)


def _kind(path: str, cached: tuple[Cached, ...]) -> Kind:
    names_kept = tuple(each.name for each in cached)
    if names_kept not in KEPT or any(not each.grows or each.tokens is None for each in cached):
        kept = ", ".join(names_kept)
        raise InvalidModel(f"{path} caches {kept}", "only a cache of keys and values is supported")
    keys, values = cached
    window = keys.window if keys.chunk is None else keys.chunk
    sizes = keys.sequences, keys.heads, keys.width, values.width
    if not all(isinstance(size, int) for size in sizes):
        raise InvalidModel(f"{path} caches {sizes}", "the peak is computed for numbers, not for symbols")
    assert window is None or isinstance(window, int)
    return Kind(keys.sequences, keys.heads, (keys.width, values.width), window)  # type: ignore[arg-type]  # ints


def _tokens(k: Tensor) -> int:
    assert isinstance(k.shape[2], int)
    return k.shape[2]


def _window(kind: Kind) -> int:
    assert kind.window is not None
    return kind.window
