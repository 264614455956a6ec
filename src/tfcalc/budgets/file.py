"""The budgets of a file: its models, its scenarios, and the limits that hold for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tfcalc import settings_file
from tfcalc.budgets.limits import Limit


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
    limits: Mapping[str, Limit]
    warn: Limit | None
    severity: str
    why: str
    expires: date | None
    line: int


@dataclass(frozen=True, slots=True)
class BudgetFile:
    """Everything that ``tfcalc budget`` reads of a tfcalc.toml, or of the [tool.tfcalc] of a pyproject.toml."""

    path: str
    conventions: Mapping[str, object]
    models: Mapping[str, ModelEntry]
    scenarios: Mapping[str, Scenario]
    budgets: tuple[Budget, ...]


def find(folder: Path) -> Path | None:
    """The settings file that is nearest above ``folder``. Raises BadFile where it cannot be read."""
    found = settings_file.find(folder)
    return found.path if found else None
