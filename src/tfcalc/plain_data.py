"""What a config or a settings file may hold before anything reads it: few levels of words, and numbers with an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.printable import quoted

DEEPEST = 50
"""Levels of lists and objects; no published config has more than five."""

MOST_DIGITS = 1_000
"""Digits of a whole number: no size has as many, and Python prints none of over 4,300."""

BEYOND = 10**MOST_DIGITS
PLAIN = (str, int, float, type(None))
"""Values without parts; True and False are ints."""


def check_plain(
    data: Mapping[str, object],
    *,
    of: str = "a config.json",
    called: str = "",
    failure: type[TfcalcError] = InvalidModel,
) -> None:
    """Raise a ``failure`` for the first value that no such file holds: another object, or what has no end.

    Every answer shows a config again, so that also what nobody reads must have a word in JSON. ``called`` is the
    file's name.
    """
    place = f"{called}: " if called else ""
    for path, value, depth in _values(data, "", 0):
        if depth > DEEPEST:
            raise failure(f"{place}{path[:40]} is nested too deeply: over {DEEPEST} levels", "leave it out")
        if not isinstance(value, PLAIN):
            kind = type(value).__name__
            hint = "convert it by int(…), float(…), str(…) or list(…)"
            raise failure(f"{place}{path} {quoted(value)} ({kind}) cannot be in {of}", hint)
        if isinstance(value, int) and not -BEYOND < value < BEYOND:
            raise failure(f"{place}{path} has over {MOST_DIGITS:,} digits", "leave it out")


def _values(value: object, path: str, depth: int) -> Iterator[tuple[str, object, int]]:
    """Everything in it that has no parts, by its path; what is nested too deeply is not looked into."""
    if depth <= DEEPEST and isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, PLAIN):
                yield f"the name {path}", name, depth
            yield from _values(inner, f"{path}.{name}" if path else str(name), depth + 1)
    elif depth <= DEEPEST and isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _values(inner, f"{path}[{place}]", depth + 1)
    else:
        yield path, value, depth


def whole_number(digits: str) -> int:
    """The number that a JSON file writes so. Raises ValueError where it has more digits than any size."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)
