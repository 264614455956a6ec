"""Sources of the models of budgets: the working tree, or another git revision of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.reader import CONFIG, parse, read
from tfcalc.revisions import is_folder, renamed, show
from tfcalc.settings_file import table_of

if TYPE_CHECKING:
    from tfcalc.budgets.file import BudgetFile, ModelEntry

Fields = Mapping[str, object]


class Source(NamedTuple):
    """Model to be counted: its entry, the ``fields`` of its config.json, if any, and the path of that."""

    entry: ModelEntry
    fields: Fields | None = None
    path: str = ""


Ask = Callable[[str, Source, Fields, Fields], Mapping[str, Any]]
"""A command, a model, the options of a scenario, and pinned conventions, to the JSON object of the answer."""
Parse = Callable[[str, str], "BudgetFile"]
"""The text of a file of budgets, and what it is called, to its budgets."""


def here(entry: ModelEntry, folder: Path) -> Source:
    """The model as it is in the working tree. Raises BadConfig."""
    if entry.config is None:
        return Source(entry)
    path = os.path.join(folder, entry.config)  # not Path's: a file called - is not the standard input
    return Source(entry, read(path), os.path.join(path, CONFIG) if os.path.isdir(path) else path)


class Revision:
    """The models and conventions at a git revision.

    Models are those of the file of budgets as it was at ``ref``, if it was there, and otherwise those of today's file
    with the configs of then. A model that has another name today, or whose config was renamed, is found, and so noted.

    Raises:
        Unavailable: git, the repository or the commit cannot be reached.
        BadFile: the file of budgets cannot be read as it was.
    """

    def __init__(self, ref: str, today: BudgetFile, folder: Path, parse_file: Parse) -> None:
        self.ref, self.today, self.folder = ref, today, folder
        self._text = cache(self._shown)
        self.file = self._file(parse_file)
        models = self.file.models if self.file else {}
        self._others = {name: entry for name, entry in models.items() if name not in today.models}
        self._notes: list[str] = []

    @property
    def conventions(self) -> Fields:
        """Conventions of the revision's file; without a file, those of today."""
        return (self.file or self.today).conventions

    @property
    def notes(self) -> list[str]:
        """Models that were renamed, have another config, or were deleted since."""
        return [*self._notes, *(f"{name} was deleted since {self.ref}" for name in self._others)]

    def source(self, entry: ModelEntry) -> Source | None:
        """The model of then that ``entry`` is today, None where it is new. Raises InvalidModel for a broken config."""
        then = self._entry(entry)
        if then is None or then.config is None:
            return None if then is None else Source(then)
        text, name = self._text(then.config), f"{self.ref}:{then.config}"
        if text is None:
            raise InvalidModel(f"{name} does not exist, which [models.{then.name}] names there")
        if then.config != entry.config:
            self._notes.append(f"{entry.name}: its config is {entry.config}, and was {then.config}")
        return Source(then, parse(text.encode(), name), name)

    def _entry(self, entry: ModelEntry) -> ModelEntry | None:
        """Entry of the revision's [models]; without one, today's entry with the config of then."""
        if self.file and entry.name in self.file.models:
            return self.file.models[entry.name]
        path = self._path(entry.config) if entry.config else None
        for name, other in self._others.items():
            same = (_place(path), entry.preset) == (_place(other.config), other.preset)
            if same and (path or other.options == entry.options):
                self._notes.append(f"{entry.name} was {name} at {self.ref}")
                del self._others[name]
                return other
        if path is not None:
            return replace(entry, config=path)
        return None if self.file or entry.config else entry

    def _path(self, config: str) -> str | None:
        """Path that today's config had."""
        if self._text(config) is not None:
            return config
        inside = os.path.isdir(self.folder / config)
        return renamed(self.ref, f"{config}/{CONFIG}" if inside else config, self.folder)

    def _shown(self, config: str) -> str | None:
        text = show(self.ref, config, self.folder)
        if text is None and is_folder(self.ref, config, self.folder):
            return show(self.ref, f"{config}/{CONFIG}", self.folder)
        return text

    def _file(self, parse_file: Parse) -> BudgetFile | None:
        name = Path(self.today.path).name
        text = show(self.ref, name, self.folder)
        if text is None and (before := renamed(self.ref, name, self.folder)):
            name, text = before, show(self.ref, before, self.folder)
        if text is None or table_of(text, name) is None:
            return None
        return parse_file(text, f"{self.ref}:{name}")


def _place(config: str | None) -> str | None:
    """A config as it may be named: the folder of a config.json is the same as that file."""
    if config is None:
        return None
    path = PurePosixPath(config)
    return str(path.parent if path.name == CONFIG else path)
