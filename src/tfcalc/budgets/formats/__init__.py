"""Formats of ``tfcalc budget`` for CI systems and reviewers: one module per format, from the same checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport

FORMATS = ("github", "junit", "sarif", "gitlab", "markdown")
"""The formats of ``tfcalc budget`` that are made here; all others come from its sheet."""


def written(checked: BudgetReport, form: str) -> str:
    """The checks in one of FORMATS, without a newline at the end.

    The same bytes for the same checks: there is no date in it, and no name of a machine. What GitHub shows as a step's
    summary is written by :func:`tfcalc.budgets.formats.github.summarize`.
    """
    match form:
        case "github":
            from tfcalc.budgets.formats.github import render
        case "junit":
            from tfcalc.budgets.formats.junit import render
        case "sarif":
            from tfcalc.budgets.formats.sarif import render
        case "gitlab":
            from tfcalc.budgets.formats.gitlab import render
        case _:
            from tfcalc.budgets.formats.markdown import render
    return render(checked)
