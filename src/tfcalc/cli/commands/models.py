"""``tfcalc models``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tfcalc import catalog
from tfcalc.answers.question import Question
from tfcalc.catalog import alike, listed, spelled
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.settings import Settings
from tfcalc.configs.family import wanted
from tfcalc.errors import UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.opening import OfTable, Opener, Way, count, given
from tfcalc.report.paths import Step
from tfcalc.report.sheet import Cell, Column, Sheet, Short, Tokens
from tfcalc.training.measured import trainable

if TYPE_CHECKING:
    from tfcalc.report.answer import Answer

COLUMNS = "size in parameters, ctx (the longest sequence) in tokens with k = 1,024, dtype of the checkpoint's weights"
WORD = Option("word", (), "only the presets with this in their names", argument=True)
LISTS = ("supported", "trainable")
"""What lists model types, and not presets."""


class Models(NamedTuple):
    """The presets with their sizes, or with their ``sources``."""

    rows: list[catalog.ListedPreset]
    with_sources: bool = False

    def sheet(self) -> Sheet:
        """A row per model."""
        columns, rows = self._sources() if self.with_sources else self._sizes()
        return Sheet(
            title=f"{len(self.rows)} model{'s' * (len(self.rows) != 1)}",
            columns=columns,
            rows=rows,
            quiet="\n".join(row.name for row in self.rows),
            notes=[] if self.with_sources else [COLUMNS],
            see_also=[] if self.with_sources else ["tfcalc models --sources"],
        )

    def _sizes(self) -> tuple[list[Column], list[list[Cell]]]:
        columns = [
            Column("model", numeric=False),
            Column("family", numeric=False, spare=4),
            Column("size", spare=1),
            Column("ctx", spare=2),
            Column("dtype", numeric=False, spare=3),
        ]
        return columns, [
            [row.name, row.family, Short(row.total_params, "B"), row.context and Tokens(row.context), row.dtype]
            for row in self.rows
        ]

    def _sources(self) -> tuple[list[Column], list[list[Cell]]]:
        columns = [
            Column("model", numeric=False),
            Column("repository", numeric=False, spare=1),
            Column("sources", numeric=False, folds=True),
        ]
        others = (
            "; ".join([preset.source, *(f"{name}: {where}" for name, where in preset.sources.items())])
            for preset in self._presets()
        )
        return columns, [[row.name, row.repository, where] for row, where in zip(self.rows, others, strict=True)]

    def _presets(self) -> Iterator[catalog.Preset]:
        return (catalog.preset(row.name) for row in self.rows)

    def opener(self) -> OfPresets:
        """Where its numbers come from."""
        return OfPresets(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        stated = ({"source": preset.source, "sources": preset.sources} for preset in self._presets())
        rows = [row._asdict() | where for row, where in zip(self.rows, stated, strict=True)]
        return {"schema_version": SCHEMA_VERSION, "command": "models", "models": rows}


class OfPresets(Opener):
    """A preset's parameters are those that tfcalc counts of it."""

    def __init__(self, answer: Models) -> None:
        self.answer = answer
        self.heading = f"{len(answer.rows)} models"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a preset's parameters, or of its longest sequence."""
        match steps:
            case ("models", int(place), "total_params"):
                name = self.answer.rows[place].name
                return Question("params", catalog.load(name), called=name).number("total_params")
            case ("models", int(place), "context"):
                return given(f"the longest sequence, by the config of {self.answer.rows[place].name}")
        return None


class Trainable(NamedTuple):
    """The model types whose training memory is answered."""

    known: tuple[str, ...]

    def sheet(self) -> Sheet:
        """A row per model type."""
        return Sheet(
            title=f"training memory is supported for {len(self.known)} model types",
            columns=[Column("model_type", numeric=False)],
            rows=[[name] for name in self.known],
            quiet="\n".join(self.known),
        )

    def opener(self) -> OfTable:
        """Where its numbers come from."""
        return OfTable("training memory", {"trainable_count": count("the model types that are listed")})

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        counted = {"trainable_count": len(self.known), "trainable": list(self.known)}
        return {"schema_version": SCHEMA_VERSION, "command": "models", **counted}


class Supported(NamedTuple):
    """The model types that a config.json may have, and those of transformers' text models that are missing."""

    known: list[str]
    missing: list[str]

    def sheet(self) -> Sheet:
        """A row per model type."""
        lacking = (
            f"text model types of transformers that are not supported ({len(self.missing)}): {', '.join(self.missing)}"
        )
        return Sheet(
            title=f"{len(self.known)} model types",
            columns=[Column("model_type", numeric=False)],
            rows=[[name] for name in self.known],
            quiet="\n".join(self.known),
            notes=[lacking if self.missing else "all text model types of transformers are supported"],
        )

    def opener(self) -> OfTable:
        """Where its numbers come from."""
        return OfTable("model types", {"supported_count": count("the model types that are listed")})

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "models",
            "supported_count": len(self.known),
            "supported": self.known,
            "missing": self.missing,
        }


def answer(settings: Settings) -> Answer:
    """The list that was asked for."""
    types, presets = settings.choose(*LISTS), [name for name in ("family", "sources") if settings.get(name)]
    if types:
        settings.refuse(("word",), "on model types", {})
    if types and presets:
        chosen = settings.choose(*types, *presets)
        types, presets = ([name for name in names if name in chosen] for names in (types, presets))
    family = settings.get("family")
    if len(types) > 1 or (types and presets):
        fact = f"--{types[0]} lists model types, and --{[*types[1:], *presets][0]} " + (
            "others" if types[1:] else "presets"
        )
        raise UsageError(fact, "leave one of them out")
    if settings.get("supported"):
        return _supported()
    if settings.get("trainable"):
        return _trainable()
    return _models(
        family.lower() if family else None, settings.get("word", ""), with_sources=bool(settings.get("sources"))
    )


def _models(family: str | None, word: str, *, with_sources: bool) -> Models:
    rows = [catalog.index()[name] for name in catalog.names()]
    known = {row.family for row in rows}
    if family is not None and family not in known:
        raise UsageError(f"no preset is of family {quoted(family)}", nearest(family, sorted(known)))
    found = [row for row in rows if family in (None, row.family) and spelled(word) in row.name]
    if not found:
        near = alike(word, catalog.names())
        remedy = f"did you mean {listed(near)}?" if near else "tfcalc models lists all"
        of_family = f" of family {quoted(family)}" if family else ""
        raise UsageError(f"no preset{of_family} has {quoted(word)} in its name", remedy)
    return Models(found, with_sources)


def _trainable() -> Trainable:
    return Trainable(trainable())


def _supported() -> Supported:
    from tfcalc.configs.config import model_types

    known = model_types()
    return Supported(known, [name for name in wanted() if name not in known])


COMMAND = Command(
    answer,
    (
        WORD,
        Option("family", ("--family",), "only those of this model_type"),
        Option("supported", ("--supported",), "list the supported model types of config.json", switch=True),
        Option("trainable", ("--trainable",), "list the model types with training memory", switch=True),
        Option("sources", ("--sources",), "each preset's repository and the sources of its figures", switch=True),
        *SHOW,
    ),
    (
        "tfcalc models",
        "tfcalc models bert-base",
        "tfcalc models --family llama",
        "tfcalc models --sources --family gpt_oss",
        "tfcalc models --supported",
        "tfcalc models --trainable",
        "tfcalc models --json",
    ),
)
