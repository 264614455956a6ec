"""The table of ``tfcalc budget``: the verdict, and the checks that concern people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, PASSED, STATUSES, WARNING
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short

if TYPE_CHECKING:
    from tfcalc.budgets.checks import Check, Checked


def sheet(checked: Checked) -> Sheet:
    """A row for each check that did not just pass; all of them in the formats for programs."""
    told = [check for check in checked.checks if check.status != PASSED]
    found = checked.count_of()
    return Sheet(
        title=verdict(checked),
        subtitle=", ".join(f"{found[status]} {status}" for status in STATUSES if found[status]) if told else "",
        columns=_columns(told),
        rows=_rows(told),
        quiet=found[FAILED],
        notes=checked.notes,
        detailed=Sheet(
            title=verdict(checked),
            columns=_columns(checked.checks),
            rows=_rows(checked.checks),
            quiet=found[FAILED],
            notes=checked.notes,
        ),
    )


def verdict(checked: Checked) -> str:
    """One line: how many of how many checks failed."""
    found, total = checked.count_of(), len(checked.checks)
    checks = f"{total} check" + "s" * (total != 1)
    if found[FAILED]:
        return f"FAILED: {found[FAILED]} of {checks}"
    if found[NOT_COMPARABLE]:
        return f"NOT COMPARABLE: {found[NOT_COMPARABLE]} of {checks}"
    return f"passed: {checks}" + (f", {found[WARNING]} with a warning" if found[WARNING] else "")


def _columns(checks: Sequence[Check]) -> list[Column]:
    return [
        Column("result", numeric=False),
        Column("model", numeric=False),
        *([Column("scenario", numeric=False)] if any(check.scenario for check in checks) else []),
        Column("metric", numeric=False, folds=True),
        *([Column("base")] if any(check.base is not None for check in checks) else []),
        Column("value"),
        Column("limit", numeric=False, folds=True),
        *([Column("why", numeric=False, folds=True, spare=1)] if any(check.why for check in checks) else []),
    ]


def _rows(checks: Sequence[Check]) -> list[list[Cell]]:
    scenarios, bases = any(check.scenario for check in checks), any(check.base is not None for check in checks)
    whys = any(check.why for check in checks)
    ordered = sorted(checks, key=lambda check: STATUSES.index(check.status))
    return [
        [
            check.status,
            check.model,
            *([check.scenario] if scenarios else []),
            check.metric,
            *([_cell(check.base, check.unit)] if bases else []),
            _cell(check.value, check.unit),
            f"{check.rule} {check.limit.text}",
            *([check.why] if whys else []),
        ]
        for check in ordered
    ]


def _cell(value: int | float | None, unit: str) -> Cell:
    if not isinstance(value, int):
        return value
    return Bytes(value) if unit == "bytes" else Short(value, "B" if unit == "params" else "G") if unit else value
