"""``tfcalc budget``."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc import __version__
from tfcalc.answers.question import levels
from tfcalc.budgets.baseline import NO_BASELINE, GitBaseline, LockBaseline, NoBaseline
from tfcalc.budgets.checks import BudgetReport
from tfcalc.budgets.file import find
from tfcalc.budgets.formats import FORMATS, written
from tfcalc.budgets.formats.github import summarize
from tfcalc.budgets.lock import NAME, read
from tfcalc.budgets.metric import read as metric_named
from tfcalc.budgets.numbers import Numbers
from tfcalc.budgets.read import read_budgets
from tfcalc.budgets.run import BudgetRun, shown
from tfcalc.budgets.sources import Revision
from tfcalc.budgets.update import updated
from tfcalc.cli.asking import Asker, refuse_idle
from tfcalc.cli.budget_options import known_options
from tfcalc.cli.commands import Command
from tfcalc.cli.options import FORMATS as GENERAL
from tfcalc.cli.options import SHOW, UNITS, Option
from tfcalc.cli.output import deliver, show
from tfcalc.cli.settings import FILE, FLAG
from tfcalc.errors import BadFile, TfcalcError, Unavailable, UsageError, nearest
from tfcalc.printable import quoted
from tfcalc.settings_file import existing_folder, text_of

if TYPE_CHECKING:
    from tfcalc.budgets.baseline import Baseline
    from tfcalc.budgets.checks import LimitCheck
    from tfcalc.budgets.file import BudgetFile
    from tfcalc.budgets.update import Updated
    from tfcalc.cli.settings import Settings
    from tfcalc.report.answer import Answered
    from tfcalc.report.number import Openable

OWN = (
    Option(
        "file",
        ("--file", "-f"),
        "the file with the budgets [default: the nearest tfcalc.toml or pyproject.toml]",
        typed="--file FILE",
        front=True,
    ),
    Option("base", ("--base",), "compare with this git revision: origin/main, HEAD~1", typed="--base REF", front=True),
    Option(
        "baseline",
        ("--baseline",),
        "file of recorded values [default: tfcalc.lock.json beside the file]",
        typed="--baseline FILE",
    ),
    Option("update", ("--update",), "record today's values in that file", switch=True, typed="--update", front=True),
    Option("reason", ("--reason",), "with --update: why recorded values rise", typed="--reason TEXT", front=True),
    Option("only", ("--model",), "only models of this name or pattern: chat*", front=True),
    Option("today", ("--today",), "the day for budgets that expire, as 2027-01-31 [default: the clock's]"),
)
SHOWN = tuple(
    option._replace(known=tuple(dict.fromkeys((*GENERAL, *FORMATS)))) if option.name == "format" else option
    for option in SHOW
    if option.name not in ("notation", "formulas", "assumptions")
)


def answer(settings: Settings) -> Answered:
    """Hold the budgets, or record the values."""
    if "only" in settings.given and settings.given["only"].called.lower().removeprefix("tfcalc_") == "model":
        settings.forget(("only",))  # there it is the model of other commands
    update = settings.get("update", False)
    if not update:
        settings.refuse(("reason",), "without --update", {}, "add --update")
    else:
        settings.refuse(("base", "only", "today"), "with --update", {})
        if settings.get("format", "table") not in GENERAL:
            settings.refuse(("format",), "with --update", {}, f"take one of {', '.join(GENERAL)}")
    if settings.get("base") and settings.get("baseline"):
        raise UsageError("--base and --baseline both name what to compare with", "leave one of them out")
    path = _path(settings)
    file = _parsed(text_of(path), str(path))
    if not file.budgets:
        raise BadFile(f"{path} has no [[budget]]", "write one, or begin with tfcalc init")
    refuse_idle(file)
    return _updated(settings, file) if update else _checked(settings, file)


def _path(settings: Settings) -> Path:
    """The file with the budgets. Raises BadFile where there is none."""
    if settings.get("file"):
        return Path(settings.get("file"))
    path = find(existing_folder())
    if path is None:
        raise BadFile("no tfcalc.toml here or above", "tfcalc init writes one, or name it: --file FILE")
    return Path(shown(path))


def _parsed(text: str, path: str) -> BudgetFile:
    return read_budgets(text, path, known_options())


def _checked(settings: Settings, file: BudgetFile) -> BudgetReport:
    numbers, folder = _numbers(settings, file), Path(file.path).parent
    other, units = _other(settings, file, numbers), _units(settings, file)
    run = BudgetRun(file, folder, numbers, other, settings.get("only", "*"), units)
    if not run.models:
        only = settings.get("only")
        raise UsageError(f"--model {quoted(only)} matches none of [models]", nearest(only, file.models))
    report = run.checked(_today(settings))
    report.ask = partial(_asked, run)
    return report


def _asked(run: BudgetRun, check: LimitCheck, keys: tuple[str, ...]) -> Openable:
    """The answer that a check is about, as deep as the keys go."""
    options = run.file.scenarios[check.scenario].options if check.scenario else {}
    command, source = metric_named(check.metric).command, run.named(check.model)
    return Asker().answer(command, source, options, run.file.conventions, levels(keys))


def _units(settings: Settings, file: BudgetFile) -> str:
    """Units as typed, else those that the file of budgets pins, else those of a variable or another settings file."""
    given, pinned = settings.given.get("units"), str(file.conventions.get("units", ""))
    return str(given.value) if given and (given.source == FLAG or not pinned) else pinned


def _numbers(settings: Settings, file: BudgetFile) -> Numbers:
    return Numbers(Asker(ascii_only=settings.get("ascii", False)), file.scenarios)


def _other(settings: Settings, file: BudgetFile, numbers: Numbers) -> Baseline:
    """Values that the numbers are compared with: the revision's, else the recorded ones, else none."""
    ref = settings.get("base")
    if ref:
        try:
            return GitBaseline(Revision(ref, file, Path(file.path).parent, _parsed), numbers, file)
        except Unavailable:
            raise
        except TfcalcError as error:
            return NoBaseline(ref, error.message)
    path = _baseline(settings, file)
    if not os.path.exists(path) and not settings.get("baseline"):
        return NoBaseline("", NO_BASELINE)
    return LockBaseline(read(path, shown(path)), shown(path), file, __version__)


def _updated(settings: Settings, file: BudgetFile) -> Updated:
    """Record the values of today, and write them."""
    path = _baseline(settings, file)
    folder, units = Path(file.path).parent, _units(settings, file)
    run = BudgetRun(file, folder, _numbers(settings, file), NoBaseline("", NO_BASELINE), units=units)
    before = read(path, shown(path)) if os.path.exists(path) else None
    found = updated(run, before, shown(path), __version__, settings.get("reason", ""))
    try:
        path.write_text(found.lock.text(), encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise UsageError(f"cannot write {quoted(str(path))}: {why}", "name a file: --baseline FILE") from None
    return found


def _baseline(settings: Settings, file: BudgetFile) -> Path:
    given = settings.get("baseline")
    return Path(given) if given else Path(file.path).parent / NAME


def _today(settings: Settings) -> date:
    """The day that was given, else that of SOURCE_DATE_EPOCH, else the clock's."""
    given, epoch = settings.get("today"), os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        try:
            return date.fromisoformat(given)
        except ValueError:
            raise UsageError(f"--today {quoted(given)} is not a date", "write --today 2027-01-31") from None
    try:
        return datetime.fromtimestamp(int(epoch) if epoch else time.time(), UTC).date()
    except (ValueError, OverflowError, OSError):
        fact = f"SOURCE_DATE_EPOCH {quoted(epoch)} is not a number of seconds since 1970"
        raise UsageError(fact, "unset it, or give --today") from None


def code(answer: Answered) -> int:
    """1 over budget, 3 where something is not comparable."""
    return answer.exit_code if isinstance(answer, BudgetReport) else 0


def write(answer: BudgetReport | Updated, settings: Settings) -> None:
    """Write the answer in a format of its own, or as any other answer."""
    form = settings.get("format", "table")
    if isinstance(answer, BudgetReport):
        settings = settings.with_values(units=answer.units)
    if form == "github" and isinstance(answer, BudgetReport) and settings.given["format"].source != FILE:
        summarize(answer, os.environ)
    if form in FORMATS and isinstance(answer, BudgetReport) and not settings.get("quiet"):
        deliver(written(answer, form), settings, commands=form == "github")
    else:
        show(answer, settings)


COMMAND = Command(
    answer,
    (*OWN, *UNITS, *SHOWN),
    (
        "tfcalc budget",
        "tfcalc budget --base HEAD~1",
        "tfcalc budget --format markdown",
        "tfcalc budget --update",
    ),
    code,
    write,
    most=inf,  # it may be asked of hundreds of models
)
