"""``tfcalc models``."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfcalc import catalog
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import show
from tfcalc.cli.settings import Settings
from tfcalc.errors import UsageError, nearest
from tfcalc.questions.params import parameter_count
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Column, Sheet


class Row(NamedTuple):
    """A preset: its family (model_type), parameters, the longest sequence it can read, and where its sizes stand."""

    name: str
    family: str
    total_params: int
    context: int | None
    source: str


class Models(NamedTuple):
    """The presets with their sizes."""

    rows: list[Row]

    def sheet(self) -> Sheet:
        """A row per model."""
        return Sheet(
            title=f"{len(self.rows)} models",
            columns=[
                Column("model", numeric=False),
                Column("family", numeric=False),
                Column("parameters"),
                Column("context"),
                Column("source", numeric=False, folds=True),
            ],
            rows=[row._replace(context=row.context or "") for row in self.rows],  # type: ignore[arg-type]  # cells
            quiet="\n".join(row.name for row in self.rows),
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        rows = [row._asdict() for row in self.rows]
        return {"schema_version": SCHEMA_VERSION, "command": "models", "models": rows}


class Supported(NamedTuple):
    """The model types that a config.json may have, and those of transformers' text models that are missing."""

    known: list[str]
    missing: list[str]

    def sheet(self) -> Sheet:
        """A row per model type."""
        lacking = (
            f"of transformers' text model types these are missing ({len(self.missing)}): {', '.join(self.missing)}"
        )
        return Sheet(
            title=f"{len(self.known)} model types",
            columns=[Column("model_type", numeric=False)],
            rows=[[name] for name in self.known],
            quiet="\n".join(self.known),
            notes=[lacking if self.missing else "none of transformers' text model types is missing"],
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "models",
            "supported_count": len(self.known),
            "supported": self.known,
            "missing": self.missing,
        }


def run(settings: Settings) -> int:
    """Answer it."""
    family = settings.get("family")
    if settings.get("supported"):
        if family:
            raise UsageError("--supported lists model types, and --family presets", "leave one of them out")
        show(_supported(), settings)
    else:
        show(_models(family.lower() if family else None), settings)
    return 0


def _models(family: str | None) -> Models:
    presets = [catalog.preset(name) for name in catalog.names()]
    known = {preset.family for preset in presets}
    if family is not None and family not in known:
        raise UsageError(f"no preset is of family {family[:80]!r}", nearest(family, sorted(known)))
    return Models([_row(preset) for preset in presets if family in (None, preset.family)])


def _row(preset: catalog.Preset) -> Row:
    model = preset.model()
    longest = model.longest if isinstance(model.longest, int) else None
    return Row(preset.name, preset.family, parameter_count(model), longest, preset.source)


def _supported() -> Supported:
    from tfcalc.configs.family import modules, wanted

    known = sorted(name for names in modules().values() for name in names)
    return Supported(known, [name for name in wanted() if name not in known])


COMMAND = Command(
    run,
    (
        Option("family", ("--family",), "only those of this model_type"),
        Option("supported", ("--supported",), "the model types of config.json that tfcalc can count", switch=True),
        *SHOW,
    ),
    ("tfcalc models", "tfcalc models --family llama", "tfcalc models --supported", "tfcalc models --json"),
)
