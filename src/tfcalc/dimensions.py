"""A dimension is one dataclass field that knows its symbol, its meaning and its flag.

From that one place come the command line's options, the JSON keys, the legends and the glossary.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any

from tfcalc.errors import InvalidModel

LARGEST = 10**12
"""No published size comes near it; a larger one is taken for a slip of the keyboard."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size: its ``symbol`` where mathematics is printed, its ``meaning`` in a few words, and its flags.

    ``least`` is the smallest value that makes sense. ``flags`` are the option's names, the config.json name among them.
    """

    symbol: str
    meaning: str
    flags: tuple[str, ...]
    least: int = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A structural alternative: a flag (``known`` empty: yes or no) or one of the ``known`` words."""

    meaning: str
    flags: tuple[str, ...]
    known: tuple[str, ...] = ()


def dimension(symbol: str, meaning: str, *flags: str, default: Any = None, least: int = 1) -> Any:
    """A dataclass field that holds a size."""
    return field(default=default, metadata={"facet": Dimension(symbol, meaning, flags, least)})


def choice(meaning: str, *flags: str, default: Any, known: tuple[str, ...] = ()) -> Any:
    """A dataclass field that holds a structural alternative."""
    return field(default=default, metadata={"facet": Choice(meaning, flags, known)})


def facet(item: Field[Any]) -> Dimension | Choice | None:
    """What a dataclass field says of itself, if anything."""
    found = item.metadata.get("facet")
    return found if isinstance(found, Dimension | Choice) else None


def check_sizes(described: Any) -> None:
    """Every dimension of a dataclass instance is a whole number in range; every choice is a known word.

    Raises InvalidModel with the field, the value, and what would do.
    """
    from tfcalc.errors import nearest

    for item in fields(described):
        value, known = getattr(described, item.name), facet(item)
        if isinstance(known, Dimension):
            if value is not None or item.default is not None:
                check_size(item.name, value, known.least)
        elif isinstance(known, Choice):
            if known.known and value not in known.known:
                raise InvalidModel(f"{item.name} {value!r} is not known", nearest(str(value), known.known))
            if not known.known and not isinstance(value, bool):
                raise InvalidModel(f"{item.name} {value!r} is neither true nor false")


def check_size(name: str, value: object, least: int = 1) -> None:
    """``value`` is a whole number from ``least`` to 10¹²; InvalidModel otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidModel(f"{name} {value!r} is not a whole number", f"give an integer of at least {least}")
    if value < least:
        raise InvalidModel(f"{name} {value} is too small", f"it must be at least {least}")
    if value > LARGEST:
        figures = f"{value:.3g}" if value < 10**300 else "over 10^300"
        raise InvalidModel(f"{name} {figures} is absurdly large", "the largest accepted is 10^12; is it a typo?")
