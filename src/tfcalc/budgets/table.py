"""The table of ``tfcalc budget``: the verdict, and the checks that concern people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, PASSED, STATUSES, WARNING
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Short

if TYPE_CHECKING:
    from tfcalc.budgets.checks import Check, Checked


def sheet(checked: Checked) -> Sheet:
    """A line for each check that did not just pass; in the formats for programs, a row for each of all."""
    told = sorted((check for check in checked.checks if check.status != PASSED), key=_concern)
    return Sheet(
        title=verdict(checked),
        subtitle=_counts(checked) if told else "",
        columns=[Column("result", numeric=False), Column("check", numeric=False, folds=True)],
        rows=[[check.status, check.message] for check in told],
        quiet=checked.count_of()[FAILED],
        notes=checked.notes,
        detailed=Sheet(
            title=verdict(checked),
            columns=_columns(),
            rows=[_row(check) for check in sorted(checked.checks, key=_concern)],
            quiet=checked.count_of()[FAILED],
            notes=checked.notes,
        ),
    )


def _concern(check: Check) -> int:
    return STATUSES.index(check.status)


def _counts(checked: Checked) -> str:
    """``tfcalc.toml against origin/main: 1 failed, 43 passed``."""
    found = checked.count_of()
    bases = dict.fromkeys(check.base_name for check in checked.checks if check.base_name)
    against = f" against {', '.join(bases)}" if bases else ""
    return f"{checked.file}{against}: " + ", ".join(f"{found[one]} {one}" for one in STATUSES if found[one])


def verdict(checked: Checked) -> str:
    """One line: how many of how many checks failed."""
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


def _row(check: Check) -> list[Cell]:
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
