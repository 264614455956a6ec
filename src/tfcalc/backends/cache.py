"""KV caches on the tape: the tensors of each layer's cache, and the copies that a decoding step makes.

Modelled on transformers' ``cache_utils``. :mod:`tfcalc.serving.caches` computes the bytes of a cache at rest;
here its tensors are on a trace, so that the copy that appends a token is live beside the old one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Cached, Component
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.ops.shapes import cat, copied, narrow
from tfcalc.ops.work import LATENT, ROTATED
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.tensor import Tensor

CACHE = "cache"
"""Label of its storages."""

SUPPORTED = (("K", "V"), (LATENT, ROTATED))
"""Supported pairs of entries of a layer: keys and values, or the latents of MLA, expanded at each step."""


MOST = 1_000
"""Largest number of layers with a cache that is simulated: each has tensors of its own."""


class LayerSizes(NamedTuple):
    """Sizes of a layer's cache: sequences, heads, widths of keys and values, and the window."""

    sequences: int
    heads: int
    widths: tuple[int, int]
    window: int | None = None


class CacheLayer:
    """Keys and values that grow by concatenation (DynamicLayer). ``tokens`` is the number of tokens so far."""

    in_place = False

    def __init__(self, kind: LayerSizes, longest: int) -> None:
        self.kind = kind
        self.longest = longest
        self.tokens = 0
        self.held: tuple[Tensor, Tensor] | None = None

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values of new tokens; return what attention reads."""
        self.tokens += _tokens(k)
        self.held = self.grown(k, v)
        return self.held

    def grown(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Concatenate old and new in new memory; the old keys are freed before the values are copied."""
        if self.held is None:
            return cat([k], 2, CACHE), cat([v], 2, CACHE)
        keys, values = self.held
        self.held = None
        k = cat([keys, k], 2, CACHE)
        del keys  # the layer's attribute has been replaced by now: the old keys are freed
        return k, cat([values, v], 2, CACHE)

    def read(self, new: int) -> int:
        """Return the number of keys that ``new`` queries read (get_mask_sizes)."""
        return self.tokens + new

    def masked(self, new: int) -> bool:
        """Return whether sdpa needs a mask (_ignore_causal_mask_sdpa, without padding).

        It does if a window is shorter than the keys read, and if buffers have free places; except for a prompt, which
        comes first and uses the kernel's own causal mask.
        """
        window = self.kind.window
        return (window is not None and self.read(new) >= window) or (self.in_place and self.tokens > 0)

    def filled(self, trace: Interpreter, tokens: int) -> None:
        """Fill it like a prompt of ``tokens``."""
        b, g, (key_width, value_width), _ = self.kind
        self.update(*(trace.new((b, g, tokens, width), trace.compute, CACHE) for width in (key_width, value_width)))

    @property
    def size(self) -> int:
        """Bytes of keys and values; the storage that they are views of may be larger."""
        return sum(x.elements * WIDTHS[x.dtype] for x in self.held or ())  # type: ignore[misc]  # numbers


class Sliding(CacheLayer):
    """The last ``window − 1`` tokens, as a view of all that attention has just read (DynamicSlidingWindowLayer)."""

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values; both copies are made before the old ones are freed."""
        self.tokens += _tokens(k)
        before = self.held  # a second reference, as in transformers: keeps the old keys live during both copies
        k, v = self.grown(k, v)
        del before
        stays = min(self.tokens, _window(self.kind) - 1)
        self.held = narrow(k, stays, 2), narrow(v, stays, 2)
        return k, v

    def read(self, new: int) -> int:
        """Return the number of keys in the window and of new ones."""
        return min(self.tokens, _window(self.kind) - 1) + new


class Static(CacheLayer):
    """Buffers that are allocated with the first token and written in place (StaticLayer, StaticSlidingWindowLayer)."""

    in_place = True

    @property
    def room(self) -> int:
        """Capacity in tokens: the longest sequence, or the window if that is less."""
        return self.longest if self.kind.window is None else min(self.longest, self.kind.window)

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values into the buffers; attention reads these as a whole.

        A prompt longer than the window is read directly; later the buffers are rolled by one token, through a copy.
        """
        before, self.tokens = self.tokens, self.tokens + _tokens(k)
        if self.held is None:
            b, g, widths, _ = self.kind
            keys, values = (k.trace.new((b, g, self.room, width), k.dtype, CACHE) for width in widths)
            self.held = keys, values
        if self.tokens > self.room and not before:
            return k, v
        if self.tokens > self.room:
            rolled = [copied(buffer, name="roll") for buffer in self.held]
            del rolled  # both copies are live at once, until they are written back
        return self.held

    def read(self, new: int) -> int:
        """Return the number of all keys, including free places."""
        return max(self.room, new)


LAYERS: dict[str, tuple[type[CacheLayer], type[CacheLayer]]] = {
    "dynamic": (CacheLayer, Sliding),
    "static": (Static, Static),
}
"""Kinds of cache: the class of a layer with full attention, and of one with a window."""


class ModelCache:
    """The cache of a model: its layers by the path of the module that they belong to.

    ``tree`` is the decoding model, whose attention states its cache entries. Raises InvalidModel for an unknown kind of
    cache, and for models that cache anything but keys and values of their own tokens.
    """

    def __init__(self, tree: Component, how: str = "dynamic", longest: int = 0) -> None:
        if how not in LAYERS:
            raise InvalidModel(f"cache {how!r} cannot be run", nearest(how, LAYERS))
        self.layers: dict[str, CacheLayer] = {}
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
        """Fill all layers like a prompt of ``tokens``."""
        for layer in self.layers.values():
            layer.filled(trace, tokens)

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return sum(layer.size for layer in self.layers.values())

    @property
    def kinds(self) -> dict[int | None, CacheLayer]:
        """One layer for each window: all with the same window read the same number of tokens."""
        return {layer.kind.window: layer for layer in self.layers.values()}

    def update(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Update the cache of the running module; return what attention reads. Raises InvalidModel."""
        assert isinstance(k.trace, Interpreter)
        path = k.trace.tape.path
        if path not in self.layers:
            raise InvalidModel(f"{path} has no KV cache", "only modules with a cache are supported")
        layer = self.layers[path]
        stays = layer.in_place and layer.held is not None
        read = layer.update(k, v)
        if not stays and (equal := k.trace.stands_for):  # the layers that this one represents share its tensors
            for other in equal[1:]:
                self.layers[other + path.removeprefix(equal[0])].held = layer.held
        return read


def blocks(part: Component, path: str) -> Iterator[tuple[str, tuple[Cached, ...]]]:
    """Yield the path of each module with a cache, as it is when every layer runs, and its entries."""
    cached = tuple(entry for operation in part.parts for entry in operation.own.cached)
    if cached:
        yield path, cached
    for below in part.parts:
        inside = list(blocks(below, ""))
        for name in _names(below) if inside and below.kind == "layer" else (below.name,):
            yield from ((f"{path}.{name}{end}", cached) for end, cached in inside)


def _names(layers: Component) -> Iterator[str]:
    """Return the names of the single layers of a component."""
    stack = layers.name.partition("[")[0]
    assert isinstance(layers.copies, int)
    places = range(layers.under, layers.under + layers.copies) if layers.places is None else layers.places
    return (f"{stack}.{place}" for place in places)


def _kind(path: str, cached: tuple[Cached, ...]) -> LayerSizes:
    names = tuple(entry.name for entry in cached)
    if names not in SUPPORTED or any(not entry.grows or entry.tokens is None for entry in cached):
        raise InvalidModel(f"{path} caches {', '.join(names)}", "only a cache of keys and values is supported")
    keys, values = cached
    window = keys.window if keys.chunk is None else keys.chunk
    sizes = keys.sequences, keys.heads, keys.width, values.width
    if not all(isinstance(size, int) for size in sizes):
        raise InvalidModel(f"{path} caches {sizes}", "the peak is computed for numbers, not for symbols")
    assert window is None or isinstance(window, int)
    return LayerSizes(keys.sequences, keys.heads, (keys.width, values.width), window)  # type: ignore[arg-type]  # ints


def _tokens(k: Tensor) -> int:
    assert isinstance(k.shape[2], int)
    return k.shape[2]


def _window(kind: LayerSizes) -> int:
    assert kind.window is not None
    return kind.window
