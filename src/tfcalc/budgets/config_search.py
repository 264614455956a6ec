"""Search for the configs of models below a folder, and a name for each."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tfcalc.budgets.keys import LONGEST_NAME
from tfcalc.errors import InvalidModel
from tfcalc.files import content
from tfcalc.named_tuple import NamedTuple
from tfcalc.reader import CONFIG, parse
from tfcalc.settings_file import LARGEST_FILE

DEEPEST, MOST_READ, MOST_MODELS = 8, 2_000, 50
"""Limits: depth of folders, JSON files that are read, and models that are listed."""
LARGEST = LARGEST_FILE
"""Bytes of a JSON file that is read; a larger one is data and no config."""
NOT_OURS = ("node_modules", "site-packages", "__pycache__", "venv", "env")
ENDINGS = re.compile(r"[._-](config|model)$")


class ConfigFile(NamedTuple):
    """Config on disk: its path relative to the folder, and its fields."""

    path: str
    fields: dict[str, object]


class FoundConfigs(NamedTuple):
    """Configs below a folder, and whether there are ``more`` than the limits allow."""

    configs: tuple[ConfigFile, ...]
    more: bool


def configs(folder: Path) -> FoundConfigs:
    """The JSON files below a folder that have a ``model_type``, but for hidden folders and those of packages."""
    found: list[ConfigFile] = []
    for number, path in enumerate(_files(folder)):
        if number >= MOST_READ or len(found) > MOST_MODELS:
            return FoundConfigs(tuple(found[:MOST_MODELS]), more=True)
        fields = _fields(path)
        if fields is not None:
            found.append(ConfigFile(path.relative_to(folder).as_posix(), fields))
    return FoundConfigs(tuple(found[:MOST_MODELS]), more=len(found) > MOST_MODELS)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        here = Path(place)
        deep = len(here.relative_to(folder).parts) >= DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if _is_ours(here / name))
        yield from (here / name for name in sorted(files) if name.endswith(".json") and not name.startswith("."))


def _is_ours(folder: Path) -> bool:
    packages = folder.name in NOT_OURS or os.path.exists(folder / "pyvenv.cfg")
    return not (folder.name.startswith(".") or packages)


def _fields(path: Path) -> dict[str, object] | None:
    """Fields of a config; None where the file is no config, or cannot be read."""
    try:
        raw = content(path, LARGEST) if str(path).isprintable() else b""
        if len(raw) > LARGEST or b'"model_type"' not in raw:
            return None
        fields = parse(raw, str(path))
    except (OSError, InvalidModel):
        return None
    return fields if isinstance(fields.get("model_type"), str) and fields["model_type"] else None


def names(paths: Sequence[str], folder: str) -> list[str]:
    """A name for each config: that of its file, or of its folder, with as many folders above as tell it from others.

    >>> names(["chat/config.json", "configs/base.json", "old/configs/base.json", "config.json"], "my models")
    ['chat', 'configs-base', 'old-configs-base', 'my-models']
    """
    parts = [_parts(path) or [folder] for path in paths]
    taken = [1] * len(paths)
    while True:
        made = ["-".join(map(_plain, each[-count:])) for each, count in zip(parts, taken, strict=True)]
        many = Counter(made)
        longer = [many[name] > 1 and count < len(each) for name, each, count in zip(made, parts, taken, strict=True)]
        if not any(longer):
            return _numbered(made)
        taken = [count + more for count, more in zip(taken, longer, strict=True)]


def _parts(path: str) -> list[str]:
    place = PurePosixPath(path)
    return list(place.parent.parts) if place.name == CONFIG else [*place.parent.parts, ENDINGS.sub("", place.stem)]


def _plain(text: str) -> str:
    """A part of a name that TOML takes without quotes."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-").replace(".", "-")[:LONGEST_NAME] or "model"


def _numbered(made: Sequence[str]) -> list[str]:
    """Unique names: a repeated one gets a number."""
    found: list[str] = []
    for name in made:
        short, number = name[: LONGEST_NAME - 4], 2
        unique = name[:LONGEST_NAME]
        while unique in found:
            unique, number = f"{short}-{number}", number + 1
        found.append(unique)
    return found
