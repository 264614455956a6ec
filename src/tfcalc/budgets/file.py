"""The budgets of a file: its models, its scenarios, and the limits that hold for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc import settings_file
from tfcalc.budgets.limits import Amount

if TYPE_CHECKING:
    from tfcalc.budgets.keys import KnownOptions


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One of [models]: a config, a preset, or sizes alone; ``options`` are further keys and their values in TOML."""

    name: str
    config: str | None
    preset: str | None
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One of [scenarios]: options of the commands, as TOML has their values."""

    name: str
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Budget:
    """One [[budget]]: the ``limits`` of a metric for models by name or pattern, by rule (max, min, …).

    ``line`` is that of its header in the file, 1 where it is not known.
    """

    models: tuple[str, ...]
    scenario: str | None
    metric: str
    limits: Mapping[str, Amount]
    warn: Amount | None
    severity: str
    why: str
    expires: date | None
    line: int


@dataclass(frozen=True, slots=True)
class BudgetFile:
    """All that ``tfcalc budget`` reads of a tfcalc.toml, or of the [tool.tfcalc] of a pyproject.toml."""

    path: str
    conventions: Mapping[str, object]
    models: Mapping[str, ModelEntry]
    scenarios: Mapping[str, Scenario]
    budgets: tuple[Budget, ...]


def find(folder: Path) -> Path | None:
    """The settings file that is nearest above ``folder``. Raises BadFile where it cannot be read."""
    found = settings_file.find(folder)
    return found.path if found else None


def read_budgets(text: str, path: str, known: KnownOptions | None = None) -> BudgetFile:
    """The budgets in the ``text`` of a file of this name.

    Where ``known`` options are given, another at the top of the file, in a model or in a scenario is refused, and each
    is called by its one name. Raises BadFile with the place of the mistake and what would do.
    """
    from tfcalc.budgets.read import read

    return read(text, path, known)
