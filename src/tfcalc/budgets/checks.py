"""Checks of ``tfcalc budget``: each limit of each budget against each model that it is for, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.answers.metrics import HEADLINES
from tfcalc.budgets.limit_check import IEC
from tfcalc.budgets.metric import read
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import (
    Answer,
    Key,
    Record,
    Told,
    boolean,
    integer,
    number,
    optional_number,
    records,
    text,
    texts,
)
from tfcalc.report.derivation import Derivation
from tfcalc.report.number import Opened
from tfcalc.report.opening import count, found, given
from tfcalc.report.report import charts
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short

if TYPE_CHECKING:
    from tfcalc.budgets.limits import Limit
    from tfcalc.report.chart import Bars
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.number import Openable

PASSED, WARNING, FAILED, NEW, NOT_COMPARABLE = "passed", "warning", "failed", "new", "not comparable"
STATUSES = (FAILED, NOT_COMPARABLE, WARNING, NEW, PASSED)
"""Statuses, the most urgent first."""
NEW_COUNT = "checks that have nothing to be compared with yet; with --update values that are new"


class FileLine(NamedTuple):
    """Line of a file that an annotation points to: the field that changed a metric, or the [[budget]]."""

    path: str
    line: int


class CheckedLimit(NamedTuple):
    """Check of one limit of one budget for one model.

    ``unit`` of ``value`` and ``base`` is ``params``, ``flops``, ``bytes``, or empty where the metric has another.
    ``rule`` is max, min, equals, max_increase, max_decrease, fits_gpu or expires; ``base_name`` says where the base is
    from.
    A check whose ``status`` is ``new`` has nothing to be compared with yet, and passes. ``message`` is one line.
    """

    model: str
    scenario: str | None
    metric: str
    unit: str
    rule: str
    limit: Limit
    value: int | float | None
    base: int | float | None
    base_name: str
    status: str
    why: str
    message: str
    place: FileLine


Ask = Callable[["LimitCheck", tuple[str, ...]], "Openable"]
"""A check, and the keys that are opened, to the answer that has its number."""


class NumberOfMetric(NamedTuple):
    """The number of a metric, as the command that has it opens it."""

    check: LimitCheck
    ask: Ask

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """Open the metric's number, or one behind it. Raises UsageError where there is none."""
        keys = further or read(self.check.metric).keys
        opened, path = Opened(self.ask(self.check, keys), prefix=prefix).open(keys), ".".join((prefix, *further))
        said = f"{self.check.metric} of {self.check.model}"
        if isinstance(opened, Derivation):
            return replace(opened, path=path, note="; ".join(filter(None, (opened.note, said))))
        return replace(opened, target=path, notes=(said, *opened.notes))


class LimitCheck(Record):
    """A limit of a budget against one model."""

    model = text("the model's name in [models]", lambda check: check.model)
    scenario: Key[str | None] = Key(
        {"type": ["string", "null"], "description": "the scenario's name in [scenarios]; null without one"},
        lambda check: check.scenario,
    )
    metric = text(f"path of the metric: {HEADLINES['peak'].path}", lambda check: check.metric)
    unit = text("params, flops, bytes, or empty for others", lambda check: check.unit)
    rule = text("max, min, equals, max_increase, max_decrease, fits_gpu or expires", lambda check: check.rule)
    limit = text("the limit as it is written", lambda check: check.limit.text)
    limit_value = number(
        "the limit as it was read; of a percentage the per cent",
        lambda check: check.limit.value,
        Told(lambda one: given(f"{one.rule} = {one.limit} of a [[budget]] in {one.within.file}")),
    )
    limit_is_percent = boolean("whether it is a percentage", lambda check: check.limit.percent)
    value = optional_number(
        "the metric now; null where there is none",
        lambda check: check.value,
        Told(lambda one: NumberOfMetric(one, one.within.ask) if one.within.ask else None),
    )
    base = optional_number(
        "the metric that it is compared with; null where there is none",
        lambda check: check.base,
        Told(lambda one: given(f"{one.metric} of {one.model} in {one.base_name}, as it was asked or recorded there")),
    )
    base_name = text(
        "where that is from: a git revision, or the file of recorded values; may be empty",
        lambda check: check.base_name,
    )
    status = text("passed, warning, failed, new or not comparable", lambda check: check.status)
    why = text("why of the budget; may be empty", lambda check: check.why)
    message = text("the verdict in one line", lambda check: check.message)
    path = text("file to annotate", lambda check: check.place.path)
    line = integer(
        "line of that file",
        lambda check: check.place.line,
        Told(lambda one: given(f"the line of {one.path} that the check is about")),
    )


class BudgetAnswer(Answer):
    """Answer about each limit against its models, or about what was recorded."""

    command, about = "budget", "Each limit of tfcalc.toml against its models; with --update what was recorded."
    exclusive = True


def _number_of(status: str, meaning: str) -> Key[int]:
    """Number of checks that have this status."""
    return integer(meaning, lambda report: report.count_of()[status], count(f"the checks whose status is {status}"))


class BudgetReport(BudgetAnswer):
    """Report of every check, and notes on models that are new, deleted or renamed.

    People read bytes in ``units`` (iec or si). ``ask`` asks the question whose answer has the number of a check.
    """

    form = "without --update"

    file = text("the file with the budgets", lambda report: report.heading)
    exit_code = integer(
        "the exit code of this answer",
        lambda report: report.code,
        found("1 where any check failed, else 3 where any is not comparable, else 0"),
    )
    failed_count = _number_of(FAILED, "checks that failed")
    not_comparable_count = _number_of(NOT_COMPARABLE, "checks of what is not comparable: another definition or version")
    warning_count = _number_of(WARNING, "checks with a warning")
    new_count = _number_of(NEW, NEW_COUNT)
    passed_count = _number_of(PASSED, "checks that passed")
    checks = records(
        LimitCheck, "each limit of each budget against each model that it is for", lambda report: report.limits
    )
    notes = texts("models that are new, deleted or renamed", lambda report: report.said)

    def __init__(
        self,
        file: str,
        limits: tuple[CheckedLimit, ...],
        notes: tuple[str, ...] = (),
        units: str = IEC,
        ask: Ask | None = None,
    ) -> None:
        self.name, self.limits, self.said, self.units, self.ask = file, limits, notes, units, ask

    @property
    def heading(self) -> str:
        """The file with the budgets."""
        return self.name

    @property
    def code(self) -> int:
        """1 where any failed, else 3 where any is not comparable, else 0."""
        return 1 if self.failed_count else 3 if self.not_comparable_count else 0

    def count_of(self) -> Counter[str]:
        """Number of checks of each status."""
        return Counter(check.status for check in self.limits)

    def pictures(self) -> tuple[Bars, ...]:
        """Share of each upper limit that is used, as far as it is an amount."""
        held = [
            (one, one.value / one.limit.value)
            for one in self.limits
            if one.rule == "max" and not one.limit.percent and one.value is not None and one.limit.value
        ]
        if not held:
            return ()
        found: Bars = charts().Bars(
            title="How much of each limit is used",
            parts=("within the limit", "beyond it"),
            rows=tuple(
                (" ".join(filter(None, (one.model, one.scenario, one.metric))), (min(used, 1), max(used - 1, 0)))
                for one, used in held
            ),
            unit="share",
        )
        return (found,)

    def sheet(self) -> Sheet:
        """Table of the checks that did not simply pass; in the formats for programs, of every check."""
        shown = sorted((check for check in self.checks if check.status != PASSED), key=_urgency)
        return Sheet(
            title=verdict(self),
            subtitle=_counts(self) if shown else "",
            columns=[Column("result", numeric=False), Column("check", numeric=False, folds=True)],
            rows=[[check.status, check.message] for check in shown],
            quiet=self.failed_count,
            notes=self.notes,
            detailed=self._detailed,
        )

    def _detailed(self) -> Sheet:
        """Return the sheet for programs: every check, with its numbers."""
        return Sheet(
            title=verdict(self),
            columns=_columns(),
            rows=[_row(check) for check in sorted(self.checks, key=_urgency)],
            quiet=self.failed_count,
            notes=self.notes,
        )


def _urgency(check: LimitCheck) -> int:
    return STATUSES.index(check.status)


def _counts(checked: BudgetReport) -> str:
    """``tfcalc.toml against origin/main: 1 failed, 43 passed``."""
    found = checked.count_of()
    bases = dict.fromkeys(check.base_name for check in checked.checks if check.base_name)
    against = f" against {', '.join(bases)}" if bases else ""
    return f"{checked.file}{against}: " + ", ".join(f"{found[one]} {one}" for one in STATUSES if found[one])


def verdict(checked: BudgetReport) -> str:
    """Verdict in one line: the number of checks that failed."""
    found, total = checked.count_of(), len(checked.checks)
    checks = f"{total} check" + "s" * (total != 1)
    if found[FAILED]:
        return f"FAILED: {found[FAILED]} of {checks}"
    if found[NOT_COMPARABLE]:
        return f"NOT COMPARABLE: {found[NOT_COMPARABLE]} of {checks}"
    return f"passed: {checks}" + (f", {found[WARNING]} with a warning" if found[WARNING] else "")


def _columns() -> list[Column]:
    words = ("result", "model", "scenario", "metric")
    return [
        *(Column(word, numeric=False) for word in words),
        Column("base"),
        Column("value"),
        *(Column(word, numeric=False) for word in ("rule", "limit", "why")),
    ]


def _row(check: LimitCheck) -> list[Cell]:
    return [
        check.status,
        check.model,
        check.scenario or "",
        check.metric,
        _cell(check.base, check.unit),
        _cell(check.value, check.unit),
        check.rule,
        check.limit,
        check.why,
    ]


def _cell(value: int | float | None, unit: str) -> Cell:
    if not isinstance(value, int):
        return value
    return Bytes(value) if unit == "bytes" else Short(value, "B" if unit == "params" else "G") if unit else value
