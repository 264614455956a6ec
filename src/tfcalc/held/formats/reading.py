"""Fields of a ``quantization_config``, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfcalc.errors import InvalidModel, nearest
from tfcalc.printable import quoted

LARGEST = 1 << 20


def field(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within; an empty one where there is none."""
    found = fields.get(name)
    if found is not None and not isinstance(found, Mapping):
        raise InvalidModel(f"{name} {quoted(found)} is not an object", "write it as the library does, in {}")
    return found or {}


def flag(fields: Mapping[str, Any], name: str) -> bool:
    """A bool; false where it is left out."""
    found = fields.get(name)
    if found is not None and not isinstance(found, bool):
        raise InvalidModel(f"{name} {quoted(found)} is neither true nor false", "write true or false")
    return bool(found)


def size(fields: Mapping[str, Any], name: str, default: int, known: Sequence[int] = ()) -> int:
    """A whole number from 1, or -1; one of ``known`` where they are given."""
    found = fields.get(name)
    if found is None:
        return default
    fits = type(found) is int and (found == -1 or 0 < found < LARGEST) and (not known or found in known)
    if not fits:
        raise InvalidModel(
            f"{name} {quoted(found)} is not a supported size", f"write {' or '.join(map(str, known)) or default}"
        )
    return int(found)


def word(fields: Mapping[str, Any], name: str, known: Sequence[str], default: str) -> str:
    """One of the known words."""
    found = fields.get(name)
    if found is None:
        return default
    if not isinstance(found, str) or found not in known:
        raise InvalidModel(f"{name} {quoted(found)} is not known", nearest(str(found)[:80], known))
    return found
