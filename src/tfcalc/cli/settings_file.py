"""The settings file: tfcalc.toml, or [tool.tfcalc] in pyproject.toml, in this folder or the nearest one above."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfcalc.cli.commands import every
from tfcalc.cli.options import CONVENTIONS, Option, keyed
from tfcalc.errors import TfcalcError, nearest
from tfcalc.printable import quoted

LARGEST_FILE = 1 << 20
VERSION = 1
OF_BUDGETS = ("models", "scenarios")
"""Tables that describe budgets, beside ``[[budget]]``; no option is called so."""


class BadFile(TfcalcError):
    """A settings file that cannot be read or has a value that cannot be (exit 3)."""

    code = "bad-file"
    exit_code = 3


class Written(NamedTuple):
    """A value as it stands in a settings file, and by which key: ``d-model``, ``conventions.units``."""

    key: str
    value: object


def filed(options: Iterable[Option]) -> tuple[dict[str, Written], Path | None]:
    """What the nearest settings file says of these options, by their names; and the file, if there is one.

    Keys of other commands' options are passed over, unread. Raises BadFile for a key that no command has, and where
    two keys say different things of one option.
    """
    folder = _here()
    for place in (folder, *folder.parents) if folder else ():
        for path, section in ((place / "tfcalc.toml", ()), (place / "pyproject.toml", ("tool", "tfcalc"))):
            if path.is_file() and (table := _table(path, section)) is not None:
                return _by_option(table, options, path), path
    return {}, None


def is_option(key: str, value: object) -> bool:
    """Whether a key at the top of a settings file is an option's; ``budget`` is one unless it holds tables."""
    if key == "budget":
        return not (isinstance(value, dict) or (isinstance(value, list) and all(isinstance(v, dict) for v in value)))
    return key not in ("version", "conventions", *OF_BUDGETS)


def _by_option(table: Mapping[str, object], options: Iterable[Option], path: Path) -> dict[str, Written]:
    version = table.get("version", VERSION)
    if version != VERSION or isinstance(version, bool | float):
        raise BadFile(f"{path}: version {quoted(version)} is not known", f"write version = {VERSION}")
    known, found = keyed((*CONVENTIONS, *options)), dict[str, Written]()
    others: dict[str, str] = {}
    for key, written in _entries(table, path):
        option = known.get(key)
        if option is None:
            others[key] = written.key
            continue
        before = found.setdefault(option.name, written)
        if not _same(before.value, written.value):
            fact = f"{written.key} {quoted(written.value)} contradicts {before.key} {quoted(before.value)}"
            raise BadFile(f"{path}: {fact}", "leave one of them out")
    for key in unknown(others):
        raise BadFile(f"{path}: key {quoted(others[key])} is not known", nearest(key, keys_of_all()))
    return found


def _entries(table: Mapping[str, object], path: Path) -> Iterator[tuple[str, Written]]:
    """The keys of options, with ``_``: the pinned conventions first, then those at the top."""
    pinned = table.get("conventions", {})
    if not isinstance(pinned, dict):
        raise BadFile(f"{path}: conventions is not a table", "write [conventions] and a line per definition")
    known = keyed(CONVENTIONS)
    for key, value in pinned.items():
        name = key.replace("-", "_")
        if name not in known:
            raise BadFile(f"{path}: key {quoted(key)} in [conventions] is not known", nearest(name, known))
        yield name, Written(f"conventions.{key}", value)
    for key, value in table.items():
        if is_option(key, value):
            yield key.replace("-", "_"), Written(key, value)


def _same(value: object, other: object) -> bool:
    return value == other or str(value).lower() == str(other).lower()


def unknown(keys: Iterable[str]) -> list[str]:
    """Those of the keys that no option of any command has. Commands are imported until all keys are found."""
    left = list(keys)
    options = every() if left else ()
    for option in options:
        left = [key for key in left if not (option.flags and key in option.keys)]
        if not left:
            break
    return left


def keys_of_all() -> list[str]:
    """The keys of all options of all commands."""
    return list(keyed(every()))


def _here() -> Path | None:
    """The folder that the program runs in, unless it is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _table(path: Path, section: tuple[str, ...]) -> dict[str, object] | None:
    """The table under ``section`` of a TOML file; None where it has none. A file without the word is not parsed."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None
    if section and section[-1].encode() not in raw:
        return None
    if len(raw) > LARGEST_FILE:
        raise BadFile(f"{path} is larger than 1 MiB", "a settings file is a few lines")
    import tomllib

    from tfcalc.plain_data import check_plain

    try:
        table: object = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise BadFile(f"{path} is not TOML: {error}") from None
    for name in section:
        table = table.get(name) if isinstance(table, dict) else None
    if table is not None and not isinstance(table, dict):
        raise BadFile(f"{path}: {'.'.join(section)} is not a table", "write [tool.tfcalc] and a line per option")
    check_plain(table or {}, of="a settings file", called=str(path), failure=BadFile)
    return table
