"""What a config may hold: what JSON has a word for, as every answer shows it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfcalc.errors import InvalidModel
from tfcalc.printable import quoted

PLAIN = (str, int, float, type(None))
"""Values without parts; True and False are ints."""
DEEPEST = 64
"""No published config nests its fields in more than five levels."""


def check_plain(data: Mapping[str, Any]) -> None:
    """Raise InvalidModel for the first field that holds another object, such as a number of numpy's or a dtype."""
    if not isinstance(data, Mapping):
        raise InvalidModel(f"{quoted(data)} is no config", "give the fields of a config.json as a dict")
    for path, value, depth in _values(data, "", 0):
        if depth > DEEPEST:
            raise InvalidModel(f"{path[:80]}… is nested in more than {DEEPEST} levels", "leave it out")
        if not isinstance(value, PLAIN):
            raise InvalidModel(
                f"{path[:80]} {quoted(value)} is no value of a config.json: {type(value).__name__}",
                "convert it by int(…), float(…), str(…) or list(…)",
            )


def _values(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    """Everything in it that has no parts, by its path; what is nested too deeply is not looked into."""
    if depth <= DEEPEST and isinstance(value, Mapping):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else str(name)
            if not isinstance(name, PLAIN):
                yield f"the name {path}", name, depth
            yield from _values(inner, below, depth + 1)
    elif depth <= DEEPEST and isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _values(inner, f"{path}[{place}]", depth + 1)
    else:
        yield path, value, depth
