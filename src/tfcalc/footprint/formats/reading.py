"""Fields of a ``quantization_config``, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfcalc.errors import InvalidModel, nearest
from tfcalc.printable import quoted

LARGEST = 1 << 20

Fields = Mapping[str, object]


def field(fields: Fields, name: str) -> Fields:
    """An object within; an empty one where there is none."""
    found = fields.get(name)
    if found is not None and not isinstance(found, Mapping):
        raise InvalidModel(f"{name} {quoted(found)} is not an object", "write it as the library does, in {}")
    return found or {}


def flag(fields: Fields, name: str) -> bool:
    """A bool; false where it is left out."""
    found = fields.get(name)
    if found is not None and not isinstance(found, bool):
        raise InvalidModel(f"{name} {quoted(found)} is neither true nor false", "write true or false")
    return bool(found)


def size(fields: Fields, name: str, default: int, known: Sequence[int] = ()) -> int:
    """A whole number from 1, or -1; one of ``known`` where they are given."""
    found = fields.get(name)
    if found is None:
        return default
    if type(found) is int and (found == -1 or 0 < found < LARGEST) and (not known or found in known):
        return found
    raise InvalidModel(
        f"{name} {quoted(found)} is not a supported size", f"write {' or '.join(map(str, known)) or default}"
    )


def word(fields: Fields, name: str, known: Sequence[str], default: str) -> str:
    """One of the known words."""
    found = fields.get(name)
    if found is None:
        return default
    if not isinstance(found, str) or found not in known:
        raise InvalidModel(f"{name} {quoted(found)} is not known", nearest(str(found)[:80], known))
    return found
