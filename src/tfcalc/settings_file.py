"""The file of settings: tfcalc.toml, or [tool.tfcalc] in pyproject.toml, in a folder or in the nearest one above."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tfcalc.errors import BadFile

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
    """The settings file that is nearest above ``folder``. Raises BadFile where it cannot be read."""
    for place in (folder, *folder.parents):
        for path in (place / OWN, place / SHARED):
            if path.is_file() and (table := _read(path)) is not None:
                return SettingsFile(path, table)
    return None


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
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
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
