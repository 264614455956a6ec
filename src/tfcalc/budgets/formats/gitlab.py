"""GitLab's Code Quality report: a JSON array with an object for each finding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, WARNING
from tfcalc.budgets.formats.findings import findings
from tfcalc.budgets.formats.paths import reference
from tfcalc.printable import printable

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport

SEVERITIES = {FAILED: "major", NOT_COMPARABLE: "major", WARNING: "minor"}


def render(checked: BudgetReport) -> str:
    """ASCII, so that it is the same JSON in any encoding; an empty array where nothing was found."""
    report = [
        {
            "description": printable(one.check.message),
            "check_name": f"tfcalc-budget-{one.rule}",
            "fingerprint": one.fingerprint,
            "severity": SEVERITIES[one.check.status],
            "location": {"path": reference(one.check.path), "lines": {"begin": max(one.check.line, 1)}},
        }
        for one in findings(checked)
    ]
    return json.dumps(report, indent=2, allow_nan=False)
