"""What ``tfcalc budget`` found: each limit of each budget held against each model that it is for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.budgets.hold import IEC
from tfcalc.report import SCHEMA_VERSION

if TYPE_CHECKING:
    from tfcalc.budgets.limits import Amount
    from tfcalc.budgets.opened import Ask, OfChecked
    from tfcalc.report.sheet import Sheet

PASSED, WARNING, FAILED, NEW, NOT_COMPARABLE = "passed", "warning", "failed", "new", "not comparable"
STATUSES = (FAILED, NOT_COMPARABLE, WARNING, NEW, PASSED)
"""In the order in which they concern people."""


class Place(NamedTuple):
    """A line of a file that an annotation points to: the field that moved a metric, or the [[budget]]."""

    path: str
    line: int


class Check(NamedTuple):
    """One limit of one budget, held against one model.

    ``unit`` of ``value`` and ``base`` is ``params``, ``flops``, ``bytes``, or empty where the metric has another.
    ``rule`` is max, min, equals, max_increase, max_decrease or expires; ``base_name`` says where the base is from.
    A check whose ``status`` is ``new`` has nothing to be compared with yet, and passes. ``message`` is one line.
    """

    model: str
    scenario: str | None
    metric: str
    unit: str
    rule: str
    limit: Amount
    value: int | float | None
    base: int | float | None
    base_name: str
    status: str
    why: str
    message: str
    place: Place

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
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


class Checked(NamedTuple):
    """The answer of ``tfcalc budget``: every check, and ``notes`` on models that are new, deleted or renamed.

    People read bytes in ``units`` (iec or si). ``ask`` asks the question whose answer has the number of a check.
    """

    file: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    units: str = IEC
    ask: Ask | None = None

    @property
    def exit_code(self) -> int:
        """1 where any failed, else 3 where any is not comparable, else 0."""
        found = self.count_of()
        return 1 if found[FAILED] else 3 if found[NOT_COMPARABLE] else 0

    def count_of(self) -> Counter[str]:
        """How many checks there are of each status."""
        return Counter(check.status for check in self.checks)

    def opener(self) -> OfChecked:
        """Where its numbers come from."""
        from tfcalc.budgets.opened import OfChecked

        return OfChecked(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
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
        """The verdict, and a row for each check that did not just pass."""
        from tfcalc.budgets.table import sheet

        return sheet(self)
