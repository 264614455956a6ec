"""A config.json, read field by field, each checked as it is read.

A family asks for what it needs by the field's name. A field that the file leaves out has the default that the family
declares (transformers' own); a size that is asked for becomes a symbol where symbols are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tfcalc.configs.declared import declared
from tfcalc.configs.fields import Field, field_of
from tfcalc.core.guarded import Guarded
from tfcalc.core.number import Num, divide
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, TooMany, nearest
from tfcalc.printable import quoted

MISSING = object()
MOST_LAYERS = 10_000
COUNT_LAYERS = ("layer", "layers", "depth", "num_hidden_groups", "inner_group_num")
"""Endings of fields that give a number of layers: some families look at layers one by one."""


class Known(Protocol):
    """Facts about a family that a nested config needs: the names of its fields, and their defaults."""

    @property
    def model_type(self) -> str:
        """Its name."""
        ...

    @property
    def defaults(self) -> Mapping[str, object]:
        """The fields that may be left out."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of fields."""
        ...


class ConfigRecord:
    """Record of what was read of a config: sizes by their path, with letters, and fields left to their default.

    ``find`` knows the families of nested configs.
    """

    __slots__ = ("assumed", "fields", "find", "instead", "seen", "sizes", "taken")

    def __init__(self, find: Callable[[object], Known], instead: Mapping[str, Num] | None = None) -> None:
        self.find = find
        self.sizes: dict[str, int] = {}
        self.fields: dict[str, Field] = {}
        self.assumed: dict[str, object] = {}
        self.seen: set[str] = set()
        self.taken: dict[str, str] = {}
        self.instead = instead or {}

    def size(self, path: str, value: int) -> Num:
        """Return the size itself, or its substitute in ``instead`` (a symbol, an array)."""
        if path not in self.sizes:
            self.sizes[path] = value
            self.fields[path] = field_of(path, self.taken)
        return self.instead.get(path, value)

    def guarded(self, path: str, value: int) -> Guarded | int:
        """Return ``value``, or the Guarded number that replaces it in a sweep, which records comparisons with it."""
        instead = self.instead.get(path)
        return instead if isinstance(instead, Guarded) else value

    def note_exact(self, path: str) -> None:
        """Record in a sweep that the config was read with this very value, so that the answer holds for no other."""
        instead = self.instead.get(path)
        if isinstance(instead, Guarded):
            instead.note_exact()


class Config:
    """The fields of one config, or of one that is nested in it.

    ``head`` is what the model is built for: the end of its class name (``ForCausalLM``, ``Model``).
    """

    __slots__ = ("aliases", "data", "defaults", "head", "model_type", "prefix", "reading")

    def __init__(
        self,
        data: Mapping[str, object],
        model_type: str,
        defaults: Mapping[str, object],
        aliases: Mapping[str, str],
        head: str,
        reading: ConfigRecord,
        prefix: str = "",
    ) -> None:
        self.data = data
        self.model_type = model_type
        self.defaults: Mapping[str, Any] = defaults
        self.aliases = aliases
        self.head = head
        self.reading = reading
        self.prefix = prefix

    # -- sizes: they become symbols

    def size(self, name: str, *, least: int = 1) -> Num:
        """A whole number of at least ``least``. Raises InvalidModel where it is none, or missing without a default."""
        return self.reading.size(self.path(name), self._number(name, least))

    def optional(self, name: str, *, least: int = 1) -> Num | None:
        """A size that may be missing or null."""
        return None if self._look_up(name) in (MISSING, None) else self.size(name, least=least)

    def quotient(self, whole: str, parts: str) -> Num:
        """``hidden_size / num_attention_heads`` where it comes out even; InvalidModel where it does not."""
        number, among = self._number(whole, 1), self._number(parts, 1)
        if number % among:
            below = number // among * among
            fits = ", ".join(str(size) for size in (below, below + among) if size)
            raise InvalidModel(
                f"{self.path(whole)} {number} is not divisible by {self.path(parts)} {among}", f"nearest: {fits}"
            )
        result: Num = divide(self.size(whole), self.size(parts))
        return result

    def sharing(self, parts: str, whole: str) -> Num:
        """Key and value heads: a size that ``whole``, the query heads, are evenly many times.

        Raises InvalidModel where they are not.
        """
        heads, groups = self._number(whole, 1), self._number(parts, 1)
        if heads % groups:
            fact = f"{self.path(whole)} {heads} is not divisible by {parts} {groups}"
            raise InvalidModel(fact, f"give a divisor of {heads}")
        return self.size(parts)

    # -- structure: it stays what it is

    def number(self, name: str, *, least: int = 1) -> int:
        """A whole number that decides the structure (how many layers of which kind), and so is never a symbol."""
        return int(self._number(name, least))

    def _number(self, name: str, least: int) -> Any:
        """Read a number that decides structure; in a sweep the branches that it takes are recorded."""
        number = self.reading.guarded(self.path(name), check_size(self.path(name), self._required(name), least))
        if number < least:
            raise InvalidModel(f"{self.path(name)} {number} is too small", f"it must be at least {least}")
        if name.endswith(COUNT_LAYERS) and number > MOST_LAYERS:
            raise TooMany(f"{self.path(name)} {number} is too large", f"at most {MOST_LAYERS} layers")
        return number

    def factor(self, name: str) -> float:
        """A number, not necessarily whole, that sizes are multiplied by."""
        return check_factor(self.path(name), self._required(name))

    def flag(self, name: str) -> bool:
        """True or false; a flag that nobody gives is false, as is null."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is neither true nor false", "write true or false")
        return bool(value)

    def word(self, name: str, known: Sequence[str] = ()) -> str:
        """A word; one of the ``known`` ones, where these are given."""
        value = self._required(name)
        if not isinstance(value, str):
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is not a word", "put it in quotes")
        if known and value not in known:
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is not known", nearest(value, known))
        return value

    def words(self, name: str, length: int | None, known: Sequence[str] = (), *, some: bool = False) -> list[str]:
        """One word per layer, such as ``layer_types``; any number, or ``some``, where no ``length`` is given."""
        words = []
        for value in self._list(name, length, some=some):
            if not isinstance(value, str) or (known and value not in known):
                hint = nearest(str(value), known) if known else "put it in quotes"
                raise InvalidModel(f"{self.path(name)}: {quoted(value)} is not known", hint)
            words.append(value)
        return words

    def numbers(self, name: str, length: int | None = None, *, least: int = 0, some: bool = False) -> list[int]:
        """A list of whole numbers; of this ``length``, where that is given, or of ``some``, which is at least one."""
        return [check_size(f"{self.path(name)}: ", value, least) for value in self._list(name, length, some=some)]

    def get(self, name: str) -> Any:
        """Return the value in the file, else its default, else None. For a structure that has no other method."""
        value = self._look_up(name)
        self.reading.note_exact(self.path(name))
        return None if value is MISSING else value

    def has(self, name: str) -> bool:
        """Return whether the file gives a value that is not null."""
        return any(self.data.get(key) is not None for key in self._keys(name))

    # -- nested configs

    def sub(
        self,
        name: str,
        model_type: str = "",
        defaults: Mapping[str, object] | None = None,
        *,
        over: Mapping[str, object] | None = None,
        head: str = "",
    ) -> Config:
        """The config that is nested under ``name``; empty where it is left out.

        Its defaults are those given here, or else those of its family: of its own ``model_type``, or of the one given
        here where it names none. ``over`` are those of the family's that the whole has its own for; ``head`` is
        what it is built for, if not what the whole is.
        """
        data = self.data.get(name)
        if data is None:
            data = {}
        if not isinstance(data, Mapping):
            raise InvalidModel(f"{self.path(name)} {quoted(data)} is not an object", "write { … }")
        path, kind = self.path(name) + ".", data.get("model_type") or model_type
        if defaults is not None:
            return Config(data, str(kind), defaults, {}, head or self.head, self.reading, path)
        family = self.reading.find(kind)
        known = {**family.defaults, **(over or {})}
        return Config(data, family.model_type, known, family.aliases, head or self.head, self.reading, path)

    def within(self, name: str, model_type: str, **own: object) -> Config:
        """The config nested under ``name``, of a ``model_type`` that no family builds by itself.

        Its defaults are those that transformers declares, and its ``own``.
        """
        return self.sub(name, model_type, {**declared(model_type), **own})

    def read_as(self, model_type: str, *, head: str = "") -> Config:
        """Read the same fields as another model type, for a part whose fields are among the whole's own."""
        family = self.reading.find(model_type)
        return Config(
            self.data,
            family.model_type,
            family.defaults,
            family.aliases,
            head or self.head,
            self.reading,
            self.prefix,
        )

    def path(self, name: str) -> str:
        """Path of the field in the file, with the nested config that contains it."""
        keys = self._keys(name)
        return self.prefix + next((key for given in (self.data, self.defaults) for key in keys if key in given), name)

    def _keys(self, name: str) -> list[str]:
        """The names that the field goes by: its own first."""
        others = [other for pair in self.aliases.items() for other, own in (pair, pair[::-1]) if own == name]
        return [name, *others]

    def _look_up(self, name: str) -> object:
        keys = self._keys(name)
        for key in keys:
            self.reading.seen.add(self.prefix + key)
            if key in self.data:
                return self.data[key]
        for key in keys:
            if key in self.defaults:
                self.reading.assumed[self.prefix + key] = self.defaults[key]
                return self.defaults[key]
        return MISSING

    def _required(self, name: str) -> object:
        value = self._look_up(name)
        if value is MISSING:
            raise InvalidModel(f"{self.prefix}{name} is missing", f"a {self.model_type} config needs it")
        if value is None:
            raise InvalidModel(f"{self.path(name)} is null", f"a {self.model_type} config needs a value")
        return value

    def _list(self, name: str, length: int | None, *, some: bool) -> list[object]:
        values = self._required(name)
        if not isinstance(values, list | tuple):
            raise InvalidModel(f"{self.path(name)} {quoted(values)} is not a list", "write [ … ]")
        if length is not None and len(values) != length:
            raise InvalidModel(f"{self.path(name)} has {len(values)} entries, not {length}", "give one for each layer")
        if some and not values:
            raise InvalidModel(f"{self.path(name)} is an empty list", "give at least one")
        return list(values)


def layer_named(key: object) -> int | None:
    """The place of the layer that a key such as ``"12"`` names; None for one that names no layer.

    >>> layer_named("12"), layer_named("²"), layer_named("9" * 5000)
    (12, None, None)
    """
    name = str(key)
    return int(name) if name.isascii() and name.isdigit() and len(name) <= len(str(MOST_LAYERS)) else None


def check_factor(path: str, value: object) -> float:
    """A number above 0, not necessarily whole. Raises InvalidModel for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise InvalidModel(f"{path} {quoted(value)} is not a factor", "write a number above 0")
    return value
