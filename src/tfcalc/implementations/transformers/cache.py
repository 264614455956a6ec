"""The cache of a model that generates: what each layer's attention keeps, and the new memory that a step takes.

After transformers' ``cache_utils``. Unlike the numbers of a cache by themselves
(:mod:`tfcalc.held.serving.caches`), these are tensors on a tape: a copy that makes room for one more token stands
beside the old one for a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.backends.cache import CACHE, KEPT, blocks
from tfcalc.core.component import Component
from tfcalc.core.cost import Cached
from tfcalc.errors import InvalidModel, nearest
from tfcalc.ops.keeping import LATENT
from tfcalc.tape.ledger import WIDTHS
from tfcalc.tape.operations import Torch
from tfcalc.tape.value import Value

if TYPE_CHECKING:
    from tfcalc.implementations.transformers.running import Running


class Kind(NamedTuple):
    """Numbers that a layer keeps of a token, in all sequences together, and how many tokens a query sees."""

    keys: int
    values: int
    window: int | None = None


class Layer:
    """Keys and values that grow by a copy of all of them (DynamicLayer). ``tokens`` have been seen so far."""

    in_place = False

    def __init__(self, kind: Kind, longest: int) -> None:
        self.kind = kind
        self.longest = longest
        self.tokens = 0
        self.keys: Value | None = None
        self.values: Value | None = None

    def update(self, t: Torch, k: Value, v: Value, new: int) -> tuple[Value, Value]:
        """Add ``new`` tokens; what attention reads. The first time the copy is of them alone."""
        self.tokens += new
        self.keys = grown(t, self.keys, k)
        self.values = grown(t, self.values, v)
        return self.keys, self.values

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

    def filled(self, t: Torch, tokens: int) -> None:
        """As a prompt of so many tokens leaves it."""
        kind = t.numerics.compute
        made = [Value(t.new(tokens * size, kind, CACHE), tokens * size, kind) for size in self.kind[:2]]
        self.update(t, made[0], made[1], tokens)

    @property
    def size(self) -> int:
        """Bytes that the keys and values are, without more of a prompt that their memory may hold."""
        held = [value for value in (self.keys, self.values) if value is not None]
        return sum(value.elements * WIDTHS[value.dtype] for value in held)  # type: ignore[misc]


class Sliding(Layer):
    """The last ``window − 1`` tokens: a view of all that attention has just read (DynamicSlidingWindowLayer)."""

    def update(self, t: Torch, k: Value, v: Value, new: int) -> tuple[Value, Value]:
        """Both copies are made before the old keys are let go of."""
        self.tokens += new
        all_keys, all_values = grown(t, self.keys, k), grown(t, self.values, v)
        stays = min(self.tokens, _window(self.kind) - 1)
        self.keys = all_keys.view(stays * self.kind.keys)
        self.values = all_values.view(stays * self.kind.values)
        return all_keys, all_values

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

    def update(self, t: Torch, k: Value, v: Value, new: int) -> tuple[Value, Value]:
        """What attention reads are the whole buffers.

        A prompt longer than the window is read as it is; then the buffers are rolled by one token, through a copy.
        """
        before, self.tokens = self.tokens, self.tokens + new
        if self.keys is None or self.values is None:
            sizes = self.room * self.kind.keys, self.room * self.kind.values
            self.keys, self.values = (Value(t.new(size, k.dtype, CACHE), size, k.dtype) for size in sizes)
        if self.tokens > self.room and not before:
            return k, v
        if self.tokens > self.room:
            rolled = [t.copied(each, each.elements, "roll") for each in (self.keys, self.values)]
            del rolled
        return self.keys, self.values

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
        if not self.layers:
            raise InvalidModel(f"{tree.name} has no KV cache", "use a model that generates")

    def filled(self, t: Torch, tokens: int) -> None:
        """As a prompt of so many tokens leaves it, in all layers."""
        for layer in self.layers.values():
            layer.filled(t, tokens)

    @property
    def size(self) -> int:
        """Bytes of all keys and values."""
        return sum(layer.size for layer in self.layers.values())

    @property
    def kinds(self) -> dict[int | None, Layer]:
        """A layer for each window: they all read the same number of tokens."""
        return {layer.kind.window: layer for layer in self.layers.values()}

    def of(self, m: Running) -> Layer:
        """That of the block that runs. Raises InvalidModel."""
        if m.t.path not in self.layers:
            raise InvalidModel(f"{m.t.path} has no KV cache", "only modules with a cache are supported")
        return self.layers[m.t.path]


def grown(t: Torch, before: Value | None, new: Value) -> Value:
    """Old and new beside each other, in new memory."""
    parts = [new] if before is None else [before, new]
    return t.result(CACHE, parts, sum(part.elements for part in parts), new.dtype)


def _kind(path: str, cached: tuple[Cached, ...]) -> Kind:
    names_kept = tuple(each.name for each in cached)
    if names_kept not in KEPT or any(not each.grows or each.tokens is None for each in cached):
        kept = ", ".join(names_kept)
        raise InvalidModel(f"{path} caches {kept}", "only a cache of keys and values is supported")
    keys, values = (each.sequences * each.heads * each.width for each in cached)
    assert isinstance(keys, int)
    assert isinstance(values, int)
    window = cached[0].window if cached[0].chunk is None else cached[0].chunk
    assert window is None or isinstance(window, int)
    return Kind(keys, values, window)


def _window(kind: Kind) -> int:
    assert kind.window is not None
    return kind.window
