"""Checks of ``tfcalc budget``: each limit of each budget against each model that it is for, and their table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.budgets.limit_check import IEC
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short

if TYPE_CHECKING:
    from tfcalc.budgets.limits import Limit
    from tfcalc.budgets.opened import Ask, OfChecked

PASSED, WARNING, FAILED, NEW, NOT_COMPARABLE = "passed", "warning", "failed", "new", "not comparable"
STATUSES = (FAILED, NOT_COMPARABLE, WARNING, NEW, PASSED)
"""Statuses, the most urgent first."""


class FileLine(NamedTuple):
    """Line of a file that an annotation points to: the field that changed a metric, or the [[budget]]."""

    path: str
    line: int


class LimitCheck(NamedTuple):
    """Check of one limit of one budget for one model.

    ``unit`` of ``value`` and ``base`` is ``params``, ``flops``, ``bytes``, or empty where the metric has another.
    ``rule`` is max, min, equals, max_increase, max_decrease or expires; ``base_name`` says where the base is from.
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

    def to_dict(self) -> dict[str, object]:
        """JSON object of the check."""
        return {
            "model": self.model,
            "scenario": self.scenario,
            "metric": self.metric,
            "unit": self.unit,
            "rule": self.rule,
            "limit": self.limit.text,
            "limit_value": self.limit.value,
            "limit_is_percent": self.limit.percent,
            "value": self.value,
            "base": self.base,
            "base_name": self.base_name,
            "status": self.status,
            "why": self.why,
            "message": self.message,
            "path": self.place.path,
            "line": self.place.line,
        }


class BudgetReport(NamedTuple):
    """Answer of ``tfcalc budget``: every check, and ``notes`` on models that are new, deleted or renamed.

    People read bytes in ``units`` (iec or si). ``ask`` asks the question whose answer has the number of a check.
    """

    file: str
    checks: tuple[LimitCheck, ...]
    notes: tuple[str, ...] = ()
    units: str = IEC
    ask: Ask | None = None

    @property
    def exit_code(self) -> int:
        """1 where any failed, else 3 where any is not comparable, else 0."""
        found = self.count_of()
        return 1 if found[FAILED] else 3 if found[NOT_COMPARABLE] else 0

    def count_of(self) -> Counter[str]:
        """Number of checks of each status."""
        return Counter(check.status for check in self.checks)

    def opener(self) -> OfChecked:
        """Origins of its numbers."""
        from tfcalc.budgets.opened import OfChecked

        return OfChecked(self)

    def to_dict(self) -> dict[str, object]:
        """JSON object of the answer."""
        found = self.count_of()
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "budget",
            "file": self.file,
            "exit_code": self.exit_code,
            **{f"{status.replace(' ', '_')}_count": found[status] for status in STATUSES},
            "checks": [check.to_dict() for check in self.checks],
            "notes": list(self.notes),
        }

    def sheet(self) -> Sheet:
        """Table of the checks that did not simply pass; in the formats for programs, of every check."""
        shown = sorted((check for check in self.checks if check.status != PASSED), key=_urgency)
        return Sheet(
            title=verdict(self),
            subtitle=_counts(self) if shown else "",
            columns=[Column("result", numeric=False), Column("check", numeric=False, folds=True)],
            rows=[[check.status, check.message] for check in shown],
            quiet=self.count_of()[FAILED],
            notes=self.notes,
            detailed=Sheet(
                title=verdict(self),
                columns=_columns(),
                rows=[_row(check) for check in sorted(self.checks, key=_urgency)],
                quiet=self.count_of()[FAILED],
                notes=self.notes,
            ),
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
        check.limit.text,
        check.why,
    ]


def _cell(value: int | float | None, unit: str) -> Cell:
    if not isinstance(value, int):
        return value
    return Bytes(value) if unit == "bytes" else Short(value, "B" if unit == "params" else "G") if unit else value
