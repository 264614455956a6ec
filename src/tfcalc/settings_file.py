"""Settings files: tfcalc.toml, or [tool.tfcalc] in pyproject.toml, in a folder or in the nearest one above."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from tfcalc.errors import BadFile, UsageError
from tfcalc.files import check_plain, content
from tfcalc.named_tuple import NamedTuple

LARGEST_FILE = 1 << 20
OWN, SHARED = "tfcalc.toml", "pyproject.toml"
PRICES = "prices"
RESERVED = ("version", "conventions", "models", "scenarios", "budget", PRICES)
"""Top-level keys that are no options: ``tfcalc budget`` reads them, and prices whoever tells money."""


class SettingsFile(NamedTuple):
    """A settings file, and its table of settings."""

    path: Path
    table: dict[str, object]

    @property
    def options(self) -> dict[str, object]:
        """Values that it sets for options; ``budget`` is one of them unless it has tables."""
        return {key: value for key, value in self.table.items() if key not in RESERVED or _is_amount(key, value)}


def _is_amount(key: str, value: object) -> bool:
    """Return whether a key is the option --budget, and not ``[[budget]]``."""
    values = value if isinstance(value, list) else [value]
    return key == "budget" and not all(isinstance(value, dict) for value in values)


def find(folder: Path) -> SettingsFile | None:
    """Return the settings file in ``folder``, or in the nearest one above. Raises BadFile if it cannot be read."""
    for place in _searched(folder):
        for path in (place / OWN, place / SHARED):
            # Path.is_file raises for a folder without search permission
            if os.path.isfile(path) and (table := _read(path)) is not None:
                return SettingsFile(path, table)
    return None


def repository(folder: Path) -> Path | None:
    """Return the root of the git repository of a folder; None outside of one."""
    return next((place for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), None)


def working_folder() -> Path | None:
    """Return the current folder; None if it does not exist any more."""
    try:
        return Path.cwd()
    except OSError:
        return None


def existing_folder() -> Path:
    """Return the current folder. Raises UsageError if it does not exist any more."""
    folder = working_folder()
    if folder is None:
        raise UsageError("the folder that tfcalc runs in does not exist any more", "cd into one that does")
    return folder


def _searched(folder: Path) -> Sequence[Path]:
    """Return the folders whose settings count: up to the repository's root, or to the home folder if that is nearer.

    Files above these may be other people's. If neither is above, folders count as long as they are the user's own.
    """
    places = (folder, *folder.parents)
    ends = [place for place in (repository(folder), _home()) if place in places]
    if ends:
        return places[: min(map(places.index, ends)) + 1]
    return (folder, *takewhile(_is_own, folder.parents))


def _home() -> Path | None:
    """Return the home folder; None if there is none, or if it is the root."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return None if home == home.parent else home


def _is_own(folder: Path) -> bool:
    """Return whether a folder belongs to the user and is not world-writable, unlike /tmp."""
    try:
        status = folder.stat()
    except OSError:
        return False
    own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return own and not status.st_mode & stat.S_IWOTH


def section(path: str) -> tuple[str, ...]:
    """Return the path of the table of settings in a file of this name."""
    return ("tool", "tfcalc") if path.replace("\\", "/").rsplit("/", 1)[-1] == SHARED else ()


def text_of(path: Path) -> str:
    """Return the text of a file. Raises BadFile if it cannot be read, is too large, or is no UTF-8."""
    return _decoded(_bytes(path), str(path))


@lru_cache(maxsize=2)  # settings and budgets are read from the same file
def table_of(text: str, path: str) -> dict[str, object] | None:
    """Return the table of settings in the text of a file; None if a pyproject.toml has none. Raises BadFile.

    Callers share it (it is cached), so none may change it.
    """
    if len(text.encode(errors="surrogatepass")) > LARGEST_FILE:
        raise BadFile(f"{path} is larger than 1 MiB", "a settings file is a few lines")
    import tomllib

    names = section(path)
    try:
        table: object = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # invalid TOML, or a number of thousands of digits
        raise BadFile(f"{path} is not TOML: {error}") from None
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadFile(f"{path}: {'.'.join(names)} is not a table", "write [tool.tfcalc] and a line per option")
    check_plain(_without_dates(table or {}), of="a settings file", called=path, failure=BadFile)
    return table


def _read(path: Path) -> dict[str, object] | None:
    """Read the table of one file. A pyproject.toml without the word tfcalc is not parsed."""
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
    """Return the table without the dates of its budgets, which are no JSON values; :mod:`tfcalc.budgets` reads them."""
    budgets = table.get("budget")
    if not isinstance(budgets, list):
        return table
    without = [
        {key: value for key, value in budget.items() if key != "expires"} if isinstance(budget, dict) else budget
        for budget in budgets
    ]
    return {**table, "budget": without}
