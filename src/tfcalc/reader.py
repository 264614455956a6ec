"""Reading of config.json files: bounded in size, checked, and never executed."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENAMETOOLONG
from functools import partial
from pathlib import Path

from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.files import Ambiguous, check_plain, content, whole_number

LARGEST = 4 << 20
"""Largest config.json, in bytes; published ones have a few thousand."""

LONGEST_NAME = 255
"""Largest number of bytes of a commit's name in ``refs/main``."""

STANDARD_INPUT = "-"
CONFIG = "config.json"


class BadConfig(InvalidModel):
    """An unreadable or invalid config.json (exit 3)."""

    code = "bad-config"


def read(place: str) -> dict[str, object]:
    """Read the config.json at ``place``: a file, a directory with one, or ``-`` for the standard input.

    Raises BadConfig if it cannot be read, is larger than 4 MiB, or is not a JSON object.
    """
    if place == STANDARD_INPUT:
        if sys.stdin is None:
            raise BadConfig("the standard input is closed", "name a file instead")
        return parse(sys.stdin.buffer.read(LARGEST + 1), "the standard input")
    with reading(place):
        path = _file(place)
        return parse(content(path, LARGEST), str(path))


@contextmanager
def reading(place: object, failure: type[BadConfig] = BadConfig) -> Iterator[None]:
    """Turn the system's errors about a file, or about its name, into a ``failure``."""
    try:
        yield
    except OSError as error:
        raise failure(f"{place} cannot be read: {error.strerror}") from None
    except (UnicodeError, ValueError) as error:
        if isinstance(error, TfcalcError):
            raise
        raise failure(f"{place} is not a file name", "use another path") from None


def parse(raw: bytes, called: str) -> dict[str, object]:
    """Parse the JSON object in these bytes. Raises BadConfig if there is none."""
    if len(raw) > LARGEST:
        raise BadConfig(f"{called} is larger than 4 MiB", "a config.json has a few thousand bytes")
    if not raw.strip():
        raise BadConfig(f"{called} is empty", 'a config.json is { "model_type": …, … }')
    try:
        repeated: dict[str, list[object]] = {}
        whole = partial(_whole, repeated)
        found = json.loads(raw.decode("utf-8-sig"), parse_int=whole_number, object_pairs_hook=whole)
    except RecursionError:
        raise BadConfig(f"{called} is nested too deeply", "a config.json is a few levels deep") from None
    except ValueError as error:  # invalid JSON or UTF-8, or a number of thousands of digits
        raise BadConfig(f"{called} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadConfig(f"{called} holds {_article(found)}, not an object", 'a config.json is { "model_type": …, … }')
    check_plain(found, called=called, failure=BadConfig)
    return Ambiguous(found, repeated) if repeated else found


def _whole(repeated: dict[str, list[object]], pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object as a dict; add names given more than once with different values to ``repeated``."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        given = defaultdict[str, list[object]](list)
        for name, value in pairs:
            given[name].append(value)
        for name, values in given.items():
            if any(value != values[-1] for value in values):
                repeated.setdefault(name, values)
    return fields


def is_place(name: str) -> bool:
    """Return whether ``name`` is a place to read from rather than a model's name.

    It is if something of this name exists, readable or not, or if it is spelled like a path.
    """
    if name == STANDARD_INPUT:
        return True
    try:
        os.stat(name)
    except PermissionError:
        return True
    except ValueError:  # a null byte
        return False
    except OSError as error:
        spelled_so = name.endswith((".json", "/")) or name.startswith((".", "/", "~"))
        return spelled_so and error.errno != ENAMETOOLONG
    return True


def _file(place: str) -> Path:
    """Return the file to read: the path itself, or the config in a directory, which may be in the Hub's cache."""
    path = Path(os.path.expanduser(place))  # without a known home, ~ is not expanded
    with suppress(FileNotFoundError, NotADirectoryError):
        path.stat()  # raises PermissionError, which Path.exists hides in some versions of Python
    if path.is_dir():
        inside = path / CONFIG
        if not inside.exists():
            inside = _snapshot(path) or inside
        if not inside.is_file():
            raise BadConfig(f"directory {path} holds no config.json", "name a directory that does")
        return inside
    if not path.exists():
        raise BadConfig(f"file {str(path)!r} does not exist", "name a config.json, a directory, or a model")
    if not path.is_file():
        raise BadConfig(
            f"{path} is not a regular file",
            "name a config.json, or - for the standard input",
        )
    return path


def _snapshot(repository: Path) -> Path | None:
    """Return the config of the snapshot that a cached repository's ``refs/main`` names, else of any snapshot."""
    reference = repository / "refs" / "main"
    chosen = content(reference, LONGEST_NAME).decode().strip() if reference.is_file() else ""
    snapshots = repository / "snapshots"
    places = [snapshots / chosen / CONFIG] if chosen else sorted(snapshots.glob(f"*/{CONFIG}"))
    return next((place for place in places if place.is_file()), None)


def _article(value: object) -> str:
    words = {list: "a list", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
    return words.get(type(value), "something else")
