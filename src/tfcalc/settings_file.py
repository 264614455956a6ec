"""The file of settings: tfcalc.toml, or [tool.tfcalc] in pyproject.toml, in a folder or in the nearest one above."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from tfcalc.errors import BadFile, UsageError
from tfcalc.files import content

LARGEST_FILE = 1 << 20
OWN, SHARED = "tfcalc.toml", "pyproject.toml"
RESERVED = ("version", "conventions", "models", "scenarios", "budget")
"""Keys at the top of the file that are no options: what ``tfcalc budget`` reads."""


class SettingsFile(NamedTuple):
    """A file that was found, and its table of settings as TOML has it."""

    path: Path
    table: dict[str, object]

    @property
    def options(self) -> dict[str, object]:
        """The values that it sets for options; ``budget`` is one of them unless it holds tables."""
        return {key: value for key, value in self.table.items() if key not in RESERVED or _is_amount(key, value)}


def _is_amount(key: str, value: object) -> bool:
    """Whether it is the option --budget, and not ``[[budget]]``."""
    tables = value if isinstance(value, list) else [value]
    return key == "budget" and not all(isinstance(one, dict) for one in tables)


def find(folder: Path) -> SettingsFile | None:
    """The settings file in ``folder``, or the nearest one above it. Raises BadFile where it cannot be read."""
    for place in _searched(folder):
        for path in (place / OWN, place / SHARED):
            # Not Path's own: a file in a folder that may not be searched is an error to that, and cannot be seen here.
            if os.path.isfile(path) and (table := _read(path)) is not None:
                return SettingsFile(path, table)
    return None


def repository(folder: Path) -> Path | None:
    """The root of the git repository that a folder is in, if it is in one."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def working_folder() -> Path | None:
    """The folder that the program runs in; None where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return None


def existing_folder() -> Path:
    """The folder that the program runs in. Raises UsageError where it is gone."""
    folder = working_folder()
    if folder is None:
        raise UsageError("the folder that tfcalc runs in does not exist any more", "cd into one that does")
    return folder


def _searched(folder: Path) -> Sequence[Path]:
    """The folders whose settings count: up to the root of the repository, or to the home folder if that is nearer.

    Above these, what lies there is others'. Where neither is above, folders count as long as they are the user's own.
    """
    places = (folder, *folder.parents)
    ends = [place for place in (repository(folder), _home()) if place in places]
    if ends:
        return places[: min(map(places.index, ends)) + 1]
    return (folder, *takewhile(_is_own, folder.parents))


def _home() -> Path | None:
    """The home folder; None where there is none, or no other folder than the root."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return None if home == home.parent else home


def _is_own(folder: Path) -> bool:
    """Whether a folder belongs to the user, and not everybody may write there, as in /tmp."""
    try:
        found = folder.stat()
    except OSError:
        return False
    own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return own and not found.st_mode & stat.S_IWOTH


def section(path: str) -> tuple[str, ...]:
    """The tables that the settings stand under in a file of this name."""
    return ("tool", "tfcalc") if path.replace("\\", "/").rsplit("/", 1)[-1] == SHARED else ()


def text_of(path: Path) -> str:
    """What is written in a file. Raises BadFile where it cannot be read, is too large or no UTF-8."""
    return _decoded(_bytes(path), str(path))


@lru_cache(maxsize=2)  # settings and budgets are read of one file
def table_of(text: str, path: str) -> dict[str, object] | None:
    """The table of settings in the text of a file; None where a pyproject.toml has none. Raises BadFile.

    It is only read, as others are given the same table.
    """
    if len(text.encode(errors="surrogatepass")) > LARGEST_FILE:
        raise BadFile(f"{path} is larger than 1 MiB", "a settings file is a few lines")
    import tomllib

    from tfcalc.plain_data import check_plain

    names = section(path)
    try:
        table: object = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, or a number of thousands of digits
        raise BadFile(f"{path} is not TOML: {error}") from None
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadFile(f"{path}: {'.'.join(names)} is not a table", "write [tool.tfcalc] and a line per option")
    check_plain(_without_dates(table or {}), of="a settings file", called=path, failure=BadFile)
    return table


def _read(path: Path) -> dict[str, object] | None:
    """The table of one file. A pyproject.toml without the word is not parsed."""
    raw = _bytes(path)
    if path.name == SHARED and b"tfcalc" not in raw:
        return None
    return table_of(_decoded(raw, str(path)), str(path))


def _bytes(path: Path) -> bytes:
    try:
        return content(path, LARGEST_FILE)
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None


def _decoded(raw: bytes, path: str) -> str:
    if len(raw) > LARGEST_FILE:
        raise BadFile(f"{path} is larger than 1 MiB", "a settings file is a few lines")
    try:
        return raw.decode()
    except ValueError as error:
        raise BadFile(f"{path} is not TOML: {error}") from None


def _without_dates(table: dict[str, object]) -> dict[str, object]:
    """The table but for the dates of its budgets, which only :mod:`tfcalc.budgets` reads."""
    budgets = table.get("budget")
    if not isinstance(budgets, list):
        return table
    kept = [
        {key: value for key, value in one.items() if key != "expires"} if isinstance(one, dict) else one
        for one in budgets
    ]
    return {**table, "budget": kept}
