"""``tfcalc init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.budgets.config_search import MOST_MODELS, MOST_READ, configs, names
from tfcalc.budgets.file import ModelEntry
from tfcalc.budgets.metric import read
from tfcalc.budgets.sources import Source
from tfcalc.budgets.starter import METRICS, SCENARIOS, Modelled, StarterValue, starter
from tfcalc.cli.asking import Asker
from tfcalc.cli.commands import Command
from tfcalc.cli.options import SHOW, Option
from tfcalc.cli.output import STANDARD_OUTPUT, deliver, show
from tfcalc.cli.settings import Settings
from tfcalc.errors import TfcalcError, UsageError
from tfcalc.printable import quoted
from tfcalc.report.declared import Answer, integer, text, texts
from tfcalc.report.opening import count
from tfcalc.report.sheet import Bytes, Column, Sheet
from tfcalc.settings_file import OWN, SHARED, existing_folder, find

if TYPE_CHECKING:
    from tfcalc.budgets.sources import Ask

EXAMPLE = "gpt2"
"""The preset that the file is about where no config was found."""
OUTPUT = Option(
    "output",
    ("--output", "-o"),
    "write this file [default: tfcalc.toml]; - is the standard output",
    typed="-o FILE",
    group="output",
    front=True,
)
FORCE = Option(
    "force", ("--force",), "replace the file if it exists", switch=True, typed="--force", replaces_file=True, front=True
)


class NewFile(Answer):
    """A file of budgets: its name, its text, and the models in it."""

    command, about = "init", "What was written: a file of budgets, for the configs below the folder."

    file = text("the file that was written", lambda answer: answer.heading)
    models = texts("the names of its models", lambda answer: [model.entry.name for model in answer.measured])
    budget_count = integer(
        "its budgets",
        lambda answer: sum(len(model.values) for model in answer.measured),
        count("the limits in the file"),
    )

    def __init__(self, file: str, text: str, measured: tuple[Modelled, ...]) -> None:
        self.name, self.text, self.measured = file, text, measured

    @property
    def heading(self) -> str:
        """The name of the file."""
        return self.name

    @property
    def line(self) -> str:
        """Line that says what was written, and what comes next."""
        models = "1 model" if len(self.models) == 1 else f"{len(self.models)} models"
        budgets = "1 budget" if self.budget_count == 1 else f"{self.budget_count} budgets"
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
                for model in self.measured
                for one in model.values
            ],
            quiet=self.file,
        )


def answer(settings: Settings) -> NewFile:
    """A file for the configs below this folder, if it may be written."""
    target, folder = settings.get("output", OWN), existing_folder()
    if target == STANDARD_OUTPUT:
        settings.refuse(("force", "format", "quiet"), "with -o -, which prints the file", {})
    elif not settings.get("force"):
        _check_free(Path(target))
    beside = folder if target == STANDARD_OUTPUT else Path(target).absolute().parent
    text, models = _starter(folder, beside, ascii_only=settings.get("ascii", False))
    return NewFile(target, text, models)


def _check_free(target: Path) -> None:
    """Raise UsageError where a file would be replaced, or settings beside it would not be read any more."""
    if os.path.lexists(target):
        raise UsageError(f"{quoted(str(target))} exists", "replace it with --force, or write another: -o FILE")
    found = find(target.absolute().parent)
    if target.name == OWN and found and found.path == target.absolute().parent / SHARED:
        raise UsageError(f"{SHARED} has [tool.tfcalc], which {OWN} would replace", "print it with -o -, or add --force")


def _starter(folder: Path, beside: Path, *, ascii_only: bool) -> tuple[str, tuple[Modelled, ...]]:
    """The text, and its models: those below ``folder``, by their paths from ``beside`` on."""
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
    """Return a model's values of today, as far as it is supported; the reason why it is not counted where none are."""
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


def write(found: NewFile, settings: Settings) -> None:
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
