"""What the settings file says of options, whose keys are those of all commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tfcalc.cli.commands import every
from tfcalc.cli.options import CONVENTIONS, Option, keyed
from tfcalc.errors import BadFile, nearest
from tfcalc.printable import quoted
from tfcalc.settings_file import RESERVED, SettingsFile, find, section, text_of, working_folder

VERSION = 1


class Written(NamedTuple):
    """A value as it stands in a settings file, and by which key: ``d-model``, ``conventions.units``."""

    key: str
    value: object


def filed(options: Iterable[Option]) -> tuple[Mapping[str, Written], Path | None]:
    """What the nearest settings file says of these options, by their names; and the file, if there is one.

    Keys of other commands' options are passed over, unread. Raises BadFile for a key that no command has or that is
    only typed, and where two keys say different things of one option.
    """
    folder = working_folder()
    file = find(folder) if folder else None
    return (_by_option(file, options), file.path) if file else ({}, None)


def _by_option(file: SettingsFile, options: Iterable[Option]) -> dict[str, Written]:
    version = file.table.get("version", VERSION)
    if version != VERSION or isinstance(version, bool | float):
        raise BadFile(f"{file.path}: version {quoted(version)} is not known", f"write version = {VERSION}")
    known, found = keyed((*CONVENTIONS, *options)), dict[str, Written]()
    others: dict[str, str] = {}
    for key, written in _entries(file):
        option = known.get(key)
        if option is None:
            others[key] = written.key
            continue
        _check_not_typed(option, written, file)
        before = found.setdefault(option.name, written)
        if not _same(before.value, written.value):
            fact = f"{written.key} {quoted(written.value)} contradicts {before.key} {quoted(before.value)}"
            raise BadFile(f"{file.path}: {fact}", "leave one of them out")
    for key, option in of_others(others).items():
        if option is None:
            hint = nearest(key, [*keys_of_all(), *RESERVED])
            raise BadFile(f"{file.path}: key {quoted(others[key])} is not known", hint)
        _check_not_typed(option, Written(others[key], file.options[others[key]]), file)
    return found


def _check_not_typed(option: Option, written: Written, file: SettingsFile) -> None:
    """Raise BadFile, with the line, for an option that decides on what is written or run."""
    if not option.typed:
        return
    from tfcalc.toml_lines import line_of_key

    line = line_of_key(text_of(file.path), (*section(file.path.name), written.key))
    flag = option.flags[0]
    raise BadFile(
        f"{file.path}:{line}: {written.key} {quoted(written.value)} cannot be set in a file: {flag} is taken from the "
        "command line alone, as it decides on what is written or run",
        f"remove it, and type it: {option.typed}",
    )


def _entries(file: SettingsFile) -> Iterator[tuple[str, Written]]:
    """The keys of options, with ``_``: the pinned conventions first, then those at the top."""
    pinned = file.table.get("conventions", {})
    if not isinstance(pinned, dict):
        raise BadFile(f"{file.path}: conventions is no table", "write [conventions] and a line per definition")
    known = keyed(CONVENTIONS)
    for key, value in pinned.items():
        name = key.replace("-", "_")
        if name not in known:
            raise BadFile(f"{file.path}: conventions: key {quoted(key)} is not known", nearest(name, known))
        yield name, Written(f"conventions.{key}", value)
    for key, value in file.options.items():
        yield key.replace("-", "_"), Written(key, value)


def _same(value: object, other: object) -> bool:
    return value == other or str(value).lower() == str(other).lower()


def of_others(keys: Iterable[str]) -> dict[str, Option | None]:
    """The options that have these keys, of any command, or None. Commands are imported until all are found."""
    found: dict[str, Option | None] = dict.fromkeys(keys)
    left = set(found)
    for option in every() if left else ():
        for key in left.intersection(option.keys if option.flags else ()):
            found[key] = option
            left.remove(key)
        if not left:
            break
    return found


def keys_of_all() -> list[str]:
    """The keys of all options of all commands."""
    return list(keyed(every()))
