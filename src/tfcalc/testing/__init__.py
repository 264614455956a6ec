"""Budgets in a test suite: ``assert_budget`` for one limit, ``assert_budgets`` for a tfcalc.toml.

Nothing here needs pytest; its fixture is in :mod:`tfcalc.testing.plugin`.
"""

from __future__ import annotations

from tfcalc.testing.limits import assert_budget
from tfcalc.testing.of_a_file import BudgetWarning, assert_budgets

__all__ = ["BudgetWarning", "assert_budget", "assert_budgets"]
