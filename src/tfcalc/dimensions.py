"""Dimensions and choices: dataclass fields with symbol, meaning and flags.

Options of the command line, keys of JSON, legends and the glossary are all derived from them.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from tfcalc.core.number import Num
from tfcalc.core.traced import Traced
from tfcalc.errors import InvalidModel, is_one_of, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from inspect import Signature

T = TypeVar("T", bound="Described")

LARGEST = 10**12
"""Largest accepted size: published ones are far below it, so a larger one is a typo."""
MOST_TOKENS = 10**18
"""The most tokens that a run may have."""


NO_SPELLINGS: Mapping[str, str] = MappingProxyType({})


class Shown(NamedTuple):
    """Place of an option in the help: its ``group``, if not that of its class, and whether it is in ``front``.

    What is in front is on the first screen of a command's help.
    """

    group: str = ""
    front: bool = False


NOT_IN_FRONT, FRONT = Shown(), Shown(front=True)


class Dimension(NamedTuple):
    """A size: its ``symbol`` in formulas, its ``meaning`` in a few words, and its flags.

    ``flags`` are the option's names, including the config.json name. ``follows`` is the formula of its default
    (``4h``), if it depends on other sizes. In a ``length`` of tokens, k is 1,024. ``shown`` is its place in the help.
    """

    symbol: str
    meaning: str
    flags: tuple[str, ...]
    follows: str = ""
    length: bool = False
    shown: "Shown" = NOT_IN_FRONT


class Choice(NamedTuple):
    """A structural alternative: yes or no (``known`` is empty), or one of the ``known`` words.

    ``spellings`` maps other libraries' words to these.
    """

    meaning: str
    flags: tuple[str, ...]
    known: tuple[str, ...] = ()
    spellings: Mapping[str, str] = NO_SPELLINGS
    shown: Shown = NOT_IN_FRONT


class Text(NamedTuple):
    """A text that is parsed elsewhere: a number format, suffixes of modules' names.

    Without flags it is no option: it follows from others. A shell completes it from what it ``offers``.
    """

    meaning: str
    flags: tuple[str, ...]
    shown: Shown = NOT_IN_FRONT
    offers: str = ""


class Parameters:
    """Signature of a class, computed when ``help()`` or ``inspect`` asks for it."""

    def __get__(self, _: object, kind: "type[Described]") -> "Signature":
        from inspect import Parameter, Signature

        by_place, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        return Signature(
            [
                Parameter(item.name, by_name if item.kw_only else by_place, default=item.default, annotation=item.type)
                for item in fields(kind)
            ]
        )


class Described:
    """Base class of frozen dataclasses whose fields are dimensions and choices, all with a default.

    Their methods are written here once instead of being generated for each class, as generating code is what makes a
    dataclass slow to import.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    field_defaults: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """Defaults of the fields by their names, in order: they are looked up a thousand times for an answer."""
    __signature__ = Parameters()
    help_group: ClassVar[str] = ""
    """Group of its options in the help, but for those that name another one."""

    def __init__(self, *values: object, **named: object) -> None:
        given = named
        if values:
            by_place = (name for name, item in self.__dataclass_fields__.items() if not item.kw_only)
            given = dict(zip(by_place, values, strict=False), **named)
        if len(given) < len(values) + len(named):
            raise TypeError(f"{type(self).__name__} is given too many values, or one of them twice")
        self._set(self.field_defaults, given)

    def _set(self, values: Mapping[str, object], changed: Mapping[str, object]) -> None:
        if not changed.keys() <= self.field_defaults.keys():
            wrong = sorted(changed.keys() - self.field_defaults.keys())
            raise TypeError(f"{type(self).__name__} has no {', '.join(wrong)}")
        self.__dict__.update(values)
        self.__dict__.update(changed)

    def __setattr__(self, name: str, *_: object) -> None:
        raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed; see replaced()")

    __delattr__ = __setattr__

    @property
    def implied(self) -> dict[str, Num]:
        """Default values of sizes that follow from others, by field name."""
        return {}

    @property
    def assumed(self) -> dict[str, Num]:
        """Default values of sizes that follow from no other but were not given, by field name."""
        return {}

    def dimensions(self) -> dict[str, Dimension]:
        """Return all sizes, by field name."""
        items = fields(self)
        return {item.name: known for item in items if isinstance(known := facet(item), Dimension)}

    def values(self) -> dict[str, Num]:
        """Return the value of each symbol that was given or assumed: ``{"h": 512, …}``."""
        known, assumed = self.dimensions(), self.assumed
        by_name = {name: assumed.get(name) if getattr(self, name) is None else getattr(self, name) for name in known}
        return {known[name].symbol: value for name, value in by_name.items() if value is not None}

    def replaced(self, **sizes: object) -> Self:
        """Return a copy with these fields changed, by field name."""
        own, copy = self.__dict__, object.__new__(type(self))
        copy._set({name: own[name] for name in self.field_defaults}, sizes)
        return copy

    def also_called(self, _name: str, /) -> tuple[str, ...]:
        """Return other names of a size: none."""
        return ()

    def places(self, name: str, /) -> list[str]:
        """Return the sizes that change with the one of this name: itself, if there is such a size."""
        return [name] if name in self.dimensions() else []

    def described(self) -> dict[str, object]:
        """Return the fields as in the JSON; sizes that were not given have their implied value."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        return given | {name: size for name, size in (self.implied | self.assumed).items() if given[name] is None}

    def size(self, name: str) -> Num:
        """Return the value of a size by its field's name: given, implied or assumed."""
        given: Num | None = getattr(self, name)
        return (self.implied | self.assumed)[name] if given is None else given

    def _values(self) -> tuple[object, ...]:
        own = self.__dict__
        return tuple([own[name] for name in self.field_defaults])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        given = (item for item in fields(self) if getattr(self, item.name) is not item.default)
        return f"{type(self).__name__}({', '.join(f'{item.name}={getattr(self, item.name)!r}' for item in given)})"


@dataclass_transform(frozen_default=True, eq_default=False)
def described(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a dataclass of the class's fields, and list them with their meanings in its docstring."""

    def decorate(kind: type[T]) -> type[T]:
        dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=kw_only)(kind)
        kind.field_defaults = {item.name: item.default for item in fields(kind)}
        lines = [f"        {item.name}: {_in_words(item)}" for item in fields(kind)]
        kind.__doc__ = "\n".join([f"{kind.__doc__ or ''}".rstrip(), "", "    Attributes:", *lines, "    "])
        return kind

    return decorate


def _in_words(item: Field[object]) -> str:
    """Describe a field: ``"sequence length, in tokens"``, ``"what is run (forward, train, prefill, decode)"``."""
    known = facet(item)
    if isinstance(known, Choice) and known.known:
        return f"{known.meaning} ({', '.join(known.known)})"
    if isinstance(known, Dimension) and known.length and "token" not in known.meaning:
        return f"{known.meaning}, in tokens"
    return known.meaning if known else ""


def dimension(
    symbol: str,
    meaning: str,
    *flags: str,
    default: object = None,
    follows: str = "",
    length: bool = False,
    shown: Shown = NOT_IN_FRONT,
) -> Any:
    """Return a dataclass field for a size."""
    return field(default=default, metadata={"facet": Dimension(symbol, meaning, flags, follows, length, shown)})


def choice(
    meaning: str,
    *flags: str,
    default: object,
    known: tuple[str, ...] = (),
    spellings: Mapping[str, str] = NO_SPELLINGS,
    shown: Shown = NOT_IN_FRONT,
) -> Any:
    """Return a dataclass field for a structural alternative."""
    return field(default=default, metadata={"facet": Choice(meaning, flags, known, spellings, shown)})


def text(meaning: str, *flags: str, default: str = "", shown: Shown = NOT_IN_FRONT, offers: str = "") -> Any:
    """Return a dataclass field for a text."""
    return field(default=default, metadata={"facet": Text(meaning, flags, shown, offers)})


def facet(item: Field[object]) -> Dimension | Choice | Text | None:
    """Return the description of a dataclass field, if it has one."""
    description = item.metadata.get("facet")
    return description if isinstance(description, Dimension | Choice | Text) else None


def check_sizes(described: Described) -> None:
    """Check that every dimension is a whole number in range, and every choice a known word.

    Raises InvalidModel with the field, the value, and the remedy.
    """
    for item in fields(described):
        value, known = getattr(described, item.name), facet(item)
        if isinstance(known, Dimension):
            if value is not None or item.default is not None:
                check_size(item.name, value)
        elif isinstance(known, Text):
            if not isinstance(value, str):
                raise InvalidModel(f"{item.name} {quoted(value)} is not text", "put it in quotes")
        elif isinstance(known, Choice):
            word = str(value) if isinstance(value, str) else ""  # the text of a str Enum may differ from its value
            if known.known and not is_one_of(known.spellings.get(word, word), known.known):
                shown = quoted(value)
                raise InvalidModel(f"{item.name} {shown} is not known", nearest(word or shown, known.known))
            if not known.known and not isinstance(value, bool):
                raise InvalidModel(f"{item.name} {quoted(value)} is neither true nor false", "write True or False")


def check_size(name: str, value: object, least: int = 1, most: int = LARGEST) -> int:
    """Return ``value``, a whole number from ``least`` to ``most`` (a power of ten). Raises InvalidModel for others."""
    if isinstance(value, Traced):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int):
        hint = (
            "convert it by int(…)"
            if hasattr(value, "__index__") and not isinstance(value, bool)
            else f"give an int of at least {least}"
        )
        raise InvalidModel(f"{name} {quoted(value)} is not a whole number", hint)
    if value < least:
        raise InvalidModel(f"{name} {quoted(value)} is too small", f"it must be at least {least}")
    if value > most:
        figures = f"{value:.3g}" if value < 10**300 else "over 10^300"
        largest = f"10^{len(str(most)) - 1}"
        raise InvalidModel(f"{name} {figures} is too large", f"the largest accepted is {largest}; is it a typo?")
    return value
