"""``tfcalc init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import STANDARD_OUTPUT, deliver, show
from tfcalc.cli.settings import Settings
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.printable import quoted
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.opening import OfTable, count
from tfcalc.report.sheet import Bytes, Column, Sheet
from tfcalc.settings_file import OWN, SHARED, existing_folder, find

if TYPE_CHECKING:
    from tfcalc.budgets.sources import Ask, Source
    from tfcalc.budgets.starter import Modelled

EXAMPLE = "gpt2"
"""The preset that the file is about where no config was found."""
OUTPUT = Option(
    "output", ("--output", "-o"), "write this file [default: tfcalc.toml]; - is the standard output", typed="-o FILE"
)
FORCE = Option("force", ("--force",), "replace the file if it exists", switch=True, typed="--force", replaces_file=True)


class Written(NamedTuple):
    """The text of a file of budgets, and what is in it."""

    file: str
    text: str
    models: tuple[Modelled, ...]

    @property
    def budgets(self) -> int:
        """How many limits there are."""
        return sum(len(model.values) for model in self.models)

    def opener(self) -> OfTable:
        """Where its numbers come from."""
        return OfTable(self.file, {"budget_count": count("the limits in the file")})

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "init",
            "file": self.file,
            "models": [model.entry.name for model in self.models],
            "budget_count": self.budgets,
        }

    @property
    def line(self) -> str:
        """What was written, and what comes next."""
        models = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        budgets = "1 budget" if self.budgets == 1 else f"{self.budgets} budgets"
        return f"{self.file} has {models} and {budgets}; next: tfcalc budget"

    def sheet(self) -> Sheet:
        """A row for each budget."""
        return Sheet(
            title=self.line,
            columns=[
                Column("model", numeric=False),
                Column("scenario", numeric=False, spare=1),
                Column("metric", numeric=False),
                Column("today"),
                Column("max"),
            ],
            rows=[
                [model.entry.name, one.scenario, one.metric, Bytes(one.value) if one.in_bytes else one.value, one.limit]
                for model in self.models
                for one in model.values
            ],
            quiet=self.file,
        )


def answer(settings: Settings) -> Written:
    """A file for the configs below this folder, if it may be written."""
    target, folder = settings.get("output", OWN), existing_folder()
    if target == STANDARD_OUTPUT:
        settings.refuse(("force", "format", "quiet"), "with -o -, which prints the file", {})
    elif not settings.get("force"):
        _check_free(Path(target))
    beside = folder if target == STANDARD_OUTPUT else Path(target).absolute().parent
    text, models = _starter(folder, beside, ascii_only=settings.get("ascii", False))
    return Written(target, text, models)


def _check_free(target: Path) -> None:
    """Raise UsageError where a file would be replaced, or settings beside it would not be read any more."""
    if os.path.lexists(target):
        raise UsageError(f"{quoted(str(target))} exists", "replace it with --force, or write another: -o FILE")
    found = find(target.absolute().parent)
    if target.name == OWN and found and found.path == target.absolute().parent / SHARED:
        raise UsageError(f"{SHARED} has [tool.tfcalc], which {OWN} would replace", "print it with -o -, or add --force")


def _starter(folder: Path, beside: Path, *, ascii_only: bool) -> tuple[str, tuple[Modelled, ...]]:
    """The text, and its models: those below ``folder``, by their paths from ``beside`` on."""
    from tfcalc.budgets.config_search import MOST_MODELS, MOST_READ, configs, names
    from tfcalc.budgets.file import ModelEntry
    from tfcalc.budgets.sources import Source
    from tfcalc.budgets.starter import Modelled, starter
    from tfcalc.cli.asking import Asker

    found, ask = configs(folder), Asker(ascii_only=ascii_only)
    models: list[Modelled] = []
    left_out: list[str] = []
    for config, name in zip(found.configs, names([one.path for one in found.configs], folder.name), strict=True):
        path = Path(os.path.relpath(folder / config.path, beside)).as_posix()
        measured = _measured(Source(ModelEntry(name, path, None, {}), config.fields, config.path), ask)
        if isinstance(measured, str):
            left_out.append(f"{path} is left out: {measured}")
        else:
            models.append(measured)
    if found.more:
        left_out.append(f"There are more: at most {MOST_READ:,} JSON files are read, and {MOST_MODELS} models listed.")
    if not models:
        example = _measured(Source(ModelEntry("example", None, EXAMPLE, {})), ask)
        models = [example] if isinstance(example, Modelled) else []
    return starter(models, left_out), tuple(models)


def _measured(source: Source, ask: Ask) -> Modelled | str:
    """What a model takes today, as far as it is supported; why it is not counted where nothing is."""
    from tfcalc.budgets.metric import read
    from tfcalc.budgets.starter import METRICS, SCENARIOS, Modelled, StarterValue

    values: list[StarterValue] = []
    for name, scenario in METRICS:
        metric = read(name)
        try:
            value = ask(metric.command, source, SCENARIOS[scenario].options if scenario else {}, {}).get(metric.keys[0])
        except TfcalcError as error:
            if scenario is None:
                return error.message
            continue
        if isinstance(value, int) and value > 0:
            values.append(StarterValue(name, scenario, value))
    return Modelled(source.entry, tuple(values))


def write(found: Written, settings: Settings) -> None:
    """The file, and a line that says so; or the file alone, to the standard output."""
    deliver(found.text.removesuffix("\n"), settings.with_values(output=found.file))
    if found.file == STANDARD_OUTPUT:
        return
    told = settings.with_values(output=STANDARD_OUTPUT)
    if settings.get("format", "table") == "table" and not settings.get("quiet"):
        deliver(found.line, told)
    else:
        show(found, told)


COMMAND = Command(
    answer,
    (
        OUTPUT,
        FORCE,
        *(option for option in SHOW if option.name in ("format", "json", "quiet", "ascii", "color", "debug")),
    ),
    ("tfcalc init", "tfcalc init -o -"),
    write=write,
)
