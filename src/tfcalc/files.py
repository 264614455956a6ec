"""Safe reading of files that others name: regular files only, opened without blocking.

Limits of a config or a settings file, checked before anything reads it: JSON values, bounded in depth and size.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import QUOTED, printable, quoted

NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
FLAGS = os.O_RDONLY | NOT_WAITING | getattr(os, "O_BINARY", 0)


def opened(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading. Raises OSError for anything else.

    Opening a pipe without a writer blocks forever, and opening a device may have effects. So the file's type is checked
    before it is opened, and again after, as the file may have been replaced in between.
    """
    try:
        _check(os.stat(path))
    except ValueError:  # Python's own, for a name with a NUL or half a surrogate pair, which no file can have
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), ascii(path)) from None
    file = os.fdopen(os.open(path, FLAGS), "rb")
    try:
        status = os.fstat(file.fileno())
        _check(status)
    except OSError:
        file.close()
        raise
    if status.st_size:
        return file
    file.close()  # files in /proc have size 0, and reading some of them blocks
    return io.BytesIO()


def content(path: Path, most: int) -> bytes:
    """Read a regular file, at most one byte more than ``most``. Raises OSError if it cannot be read."""
    with opened(path) as file:
        return file.read(most + 1)


def _check(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


DEEPEST = 50
"""Largest number of levels of lists and objects; no published config has more than five."""

LONGEST_PATH = 200
"""Largest number of characters of the path in an error."""

MOST_DIGITS = 1_000
"""Largest number of digits of a whole number: far above any size, and below Python's limit of 4,300 for printing."""

MOST_VALUES = 500_000
"""Largest number of values, over all levels: 21,843 classes of ImageNet, in label2id and id2label, are 43,686."""

BEYOND = 10**MOST_DIGITS
PLAIN = (str, int, float, type(None))
"""Values without parts; True and False are ints."""
SHORT = frozenset((str, float, bool, type(None)))
"""Types whose every value is allowed: a quick test that settles nearly all values."""


class Ambiguous(dict[str, object]):
    """Fields of a file that gives some of them more than once: ``repeated`` has the values of each, in order.

    The last value counts, as for other JSON parsers.
    """

    def __init__(self, fields: Mapping[str, object], repeated: Mapping[str, list[object]]) -> None:
        super().__init__(fields)
        self.repeated = repeated


MOST_TOLD = 3
"""Largest number of repeated fields that are reported one by one."""


def told_twice(fields: Mapping[str, object]) -> list[str]:
    """Return notes on fields that are given more than once with different values."""
    repeated = fields.repeated if isinstance(fields, Ambiguous) else {}
    notes = [
        f"{printable(name)[:QUOTED]} is given {len(values)} times; the last counts, {quoted(values[-1])}, "
        f"and not {quoted(values[0])}"
        for name, values in list(repeated.items())[:MOST_TOLD]
    ]
    more = len(repeated) - MOST_TOLD
    return [*notes, f"{more:,} more fields are given more than once; the last counts"] if more > 0 else notes


def check_plain(
    data: Mapping[str, object],
    *,
    of: str = "a config.json",
    called: str = "",
    failure: type[TfcalcError] = InvalidModel,
) -> None:
    """Raise a ``failure`` for the first value that such a file cannot contain: other objects, or values out of bounds.

    As answers print a config's fields, unread ones, too, must be JSON values. ``called`` is the file's name.
    """
    checker = _Checker(of)
    flaw = checker.flaw(data, 0)
    if checker.values > MOST_VALUES:
        raise failure(f"{called or of} has over {MOST_VALUES:,} values", "leave out what no model reads")
    if flaw:
        path = flaw.path.removeprefix(".")
        place = f"{called}: " if called else ""
        raise failure(f"{place}{flaw.before}{path[:LONGEST_PATH]}{flaw.fact}", flaw.remedy)


class Flaw(NamedTuple):
    """A flaw of the value at a ``path``: the error's text is ``before``, path and ``fact``, then the remedy."""

    fact: str
    remedy: str
    before: str = ""
    path: str = ""


TOO_MANY = Flaw("", "")


class _Checker:
    """Finds the first flaw, and counts ``values``. Paths are only made for a flaw, as there may be many values."""

    def __init__(self, of: str) -> None:
        self.of, self.values = of, 0

    def flaw(self, value: object, depth: int) -> Flaw | None:
        """Return the first flaw of a value or of its parts, down to the largest depth."""
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
            flaw = None if type(inner) in SHORT else self.flaw(inner, depth + 1)
            if flaw:
                step = f".{name}" if isinstance(value, Mapping) else f"[{name}]"
                return flaw._replace(path=f"{step}{flaw.path}")
        return None

    def _own(self, value: object) -> Flaw | None:
        """Return the flaw of a value without parts."""
        if not isinstance(value, PLAIN):
            return self._other(value)
        if isinstance(value, int) and not -BEYOND < value < BEYOND:
            return Flaw(f" has over {MOST_DIGITS:,} digits", "leave it out")
        return None

    def _other(self, value: object, before: str = "") -> Flaw:
        fact = f" {quoted(value)} ({type(value).__name__}) cannot be in {self.of}"
        return Flaw(fact, "convert it by int(…), float(…), str(…) or list(…)", before)


def whole_number(digits: str) -> int:
    """Parse a whole number of a JSON file. Raises ValueError if it has more digits than any size."""
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)
