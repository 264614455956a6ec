"""What a config or a settings file may hold before anything reads it: few levels of words, and numbers with an end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.printable import QUOTED, printable, quoted

DEEPEST = 50
"""Levels of lists and objects; no published config has more than five."""

LONGEST_PATH = 200
"""Characters of the path that an error names."""

MOST_DIGITS = 1_000
"""Digits of a whole number: no size has as many, and Python prints none of over 4,300."""

MOST_VALUES = 500_000
"""Values and lists of all levels: 21,843 classes of ImageNet, each with its name and back, are 43,686."""

BEYOND = 10**MOST_DIGITS
PLAIN = (str, int, float, type(None))
"""Values without parts; True and False are ints."""
SHORT = frozenset((str, float, bool, type(None)))
"""Types whose every value may be there, which is all that nearly every value needs to be asked."""


class Ambiguous(dict[str, object]):
    """The fields of a file that gives some of them more than once: ``repeated`` has the values of each, in order.

    The last one counts, as for every other reader of JSON.
    """

    def __init__(self, fields: Mapping[str, object], repeated: Mapping[str, list[object]]) -> None:
        super().__init__(fields)
        self.repeated = repeated


MOST_TOLD = 3
"""Fields that are given more than once and are told one by one."""


def told_twice(fields: Mapping[str, object]) -> list[str]:
    """What is to be known of fields that are given more than once, with other values."""
    repeated = fields.repeated if isinstance(fields, Ambiguous) else {}
    told = [
        f"{printable(name)[:QUOTED]} is given {len(values)} times; the last counts, {quoted(values[-1])}, "
        f"and not {quoted(values[0])}"
        for name, values in list(repeated.items())[:MOST_TOLD]
    ]
    more = len(repeated) - MOST_TOLD
    return [*told, f"{more:,} more fields are given more than once; the last counts"] if more > 0 else told


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
    looked = _Looked(of)
    flaw = looked.flaw(data, 0)
    if looked.values > MOST_VALUES:
        raise failure(f"{called or of} has over {MOST_VALUES:,} values", "leave out what no model reads")
    if flaw:
        path = flaw.path.removeprefix(".")
        place = f"{called}: " if called else ""
        raise failure(f"{place}{flaw.before}{path[:LONGEST_PATH]}{flaw.fact}", flaw.remedy)


class Flaw(NamedTuple):
    """What is wrong with the value at a ``path``, which the words stand around."""

    fact: str
    remedy: str
    before: str = ""
    path: str = ""


TOO_MANY = Flaw("", "")


class _Looked:
    """How many values were looked at. A path is only made where there is a flaw, as there may be many values."""

    def __init__(self, of: str) -> None:
        self.of, self.values = of, 0

    def flaw(self, value: object, depth: int) -> Flaw | None:
        """The first flaw of a value, or of what is in it; what is nested too deeply is not looked into."""
        if isinstance(value, Mapping):
            entries: Iterable[tuple[object, object]] = value.items()
        elif isinstance(value, list | tuple):
            entries = enumerate(value)
        else:
            return self._own(value)
        if depth > DEEPEST:
            return Flaw(f" is nested too deeply: over {DEEPEST} levels", "leave it out")
        self.values += len(value)
        if self.values > MOST_VALUES:
            return TOO_MANY
        for name, inner in entries:
            if not isinstance(name, PLAIN):
                return self._other(name, "the name ")
            found = None if type(inner) in SHORT else self.flaw(inner, depth + 1)
            if found:
                step = f".{name}" if isinstance(value, Mapping) else f"[{name}]"
                return found._replace(path=f"{step}{found.path}")
        return None

    def _own(self, value: object) -> Flaw | None:
        """What is wrong with a value that has no parts."""
        if not isinstance(value, PLAIN):
            return self._other(value)
        if isinstance(value, int) and not -BEYOND < value < BEYOND:
            return Flaw(f" has over {MOST_DIGITS:,} digits", "leave it out")
        return None

    def _other(self, value: object, before: str = "") -> Flaw:
        fact = f" {quoted(value)} ({type(value).__name__}) cannot be in {self.of}"
        return Flaw(fact, "convert it by int(…), float(…), str(…) or list(…)", before)


def whole_number(digits: str) -> int:
    """The number that a JSON file writes so. Raises ValueError where it has more digits than any size."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)
