"""What a JSON or TOML file may hold before anything reads it: a few levels of words and of numbers with an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DEEPEST = 50
"""Levels of lists and objects; published configs have five."""

MOST_DIGITS = 1_000
"""Digits of a whole number: no size has as many, and Python prints none of over 4,300."""

_BEYOND = 10**MOST_DIGITS


def flaw(data: Any, path: str = "", depth: int = 0) -> str:
    """What is wrong with the first value that a file cannot hold, with its path; empty where there is none.

    >>> flaw({"model_type": "gpt2", "id2label": {0: "no"}, "x": (1, 2.5, None, True)})
    ''
    >>> flaw({"layers": [{"width": {512}}]})
    'layers[0].width is a set, which no JSON holds'
    """
    if depth > DEEPEST:
        return f"{path[:20]} is nested too deeply: over {DEEPEST} levels"
    if isinstance(data, int) and not -_BEYOND < data < _BEYOND:
        return f"{path} has over {MOST_DIGITS:,} digits"
    if data is None or isinstance(data, str | int | float):
        return ""
    if not isinstance(data, Mapping | list | tuple):
        return f"{path} is a {type(data).__name__}, which no JSON holds"
    below = _named(data, path) if isinstance(data, Mapping) else _listed(data, path)
    return next(filter(None, (flaw(value, name, depth + 1) for name, value in below)), "")


def _named(data: Mapping[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        known = isinstance(key, str | int)
        name = str(key) if known else f"a key that is a {type(key).__name__}"
        yield f"{path}.{name}" if path else name, value if known else key


def _listed(data: Sequence[Any], path: str) -> Iterator[tuple[str, Any]]:
    return ((f"{path}[{place}]", value) for place, value in enumerate(data))


def whole_number(digits: str) -> int:
    """The number that a JSON file writes so. Raises ValueError where it has more digits than any size."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)
