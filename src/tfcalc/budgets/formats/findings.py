"""The checks that a format reports, each with the name by which one run's finding is known in the next run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from hashlib import sha256
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, STATUSES, WARNING
from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport, LimitCheck

FOUND = (FAILED, NOT_COMPARABLE, WARNING)
"""Statuses that a reviewer has to look at. A new model and a limit that is met are no findings."""

RULES = {
    "max": "A metric is above its limit",
    "min": "A metric is below its limit",
    "equals": "A metric has another value than it must have",
    "max_increase": "A metric grew by more than its limit",
    "max_decrease": "A metric shrank by more than its limit",
    "expires": "A budget has expired",
    "not_comparable": "A metric cannot be compared with its earlier value",
}
"""Descriptions of findings, by the name of their rule."""


class Finding(NamedTuple):
    """A check, and 64 hexadecimal digits that stay the same while model, scenario, metric and rule do."""

    check: LimitCheck
    fingerprint: str

    @property
    def rule(self) -> str:
        """One of RULES."""
        return "not_comparable" if self.check.status == NOT_COMPARABLE else self.check.rule


def findings(checked: BudgetReport, statuses: Collection[str] = FOUND) -> list[Finding]:
    """The checks of these statuses, those that concern people most first.

    Where two budgets limit the same metric of the same model by the same rule, the second has a fingerprint of its own.
    A finding keeps its fingerprint when its value, its limit or its line in the file changes.
    """
    met: Counter[tuple[str, str | None, str, str]] = Counter()
    found = []
    for check in checked.checks:
        key = (check.model, check.scenario, check.metric, check.rule)
        met[key] += 1
        text = json.dumps([*key, met[key]])
        found.append(Finding(check, sha256(text.encode()).hexdigest()))
    told = [one for one in found if one.check.status in statuses]
    return sorted(told, key=lambda one: STATUSES.index(one.check.status))


def named(check: LimitCheck) -> str:
    """``chat (finetune): memory.peak_bytes``."""
    scenario = f" ({check.scenario})" if check.scenario else ""
    return f"{check.model}{scenario}: {check.metric}"
