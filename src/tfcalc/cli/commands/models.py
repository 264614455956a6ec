"""``tfcalc models``."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfcalc import catalog
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.questions.params import params
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Column, Sheet


class Models(NamedTuple):
    """The presets with their sizes."""

    rows: list[tuple[str, int, str]]

    def sheet(self) -> Sheet:
        """A row per model."""
        return Sheet(
            title=f"{len(self.rows)} models",
            columns=[Column("model", numeric=False), Column("parameters"), Column("source", numeric=False, folds=True)],
            rows=self.rows,
            quiet="\n".join(name for name, _, _ in self.rows),
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        rows = [{"name": name, "total_params": count, "source": source} for name, count, source in self.rows]
        return {"schema_version": SCHEMA_VERSION, "command": "models", "models": rows}


def run(settings: Settings) -> int:
    """Answer it."""
    answer = Models(
        [(name, params(catalog.load(name)).answer, catalog.preset(name).source) for name in catalog.names()]
    )
    show(answer, settings)
    return 0


COMMAND = Command(run, SHOW, ("tfcalc models", "tfcalc models --json"))
