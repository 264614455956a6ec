"""Assertion of all budgets of a file."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, cast

from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, WARNING, verdict
from tfcalc.cli.commands import command
from tfcalc.cli.settings import FLAG, Given, Settings
from tfcalc.printable import printable

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport


class BudgetWarning(UserWarning):
    """A budget whose warning threshold is passed, or whose severity is warning."""


def assert_budgets(file: str | os.PathLike[str] | None = None, base: str | None = None) -> None:
    """Assert that all budgets of a file are met, as ``tfcalc budget --file FILE --base BASE`` does.

    Args:
        file: the tfcalc.toml or pyproject.toml; by default the nearest one, in this folder or above.
        base: the git revision to compare with; by default the values of tfcalc.lock.json beside the file, if it exists.

    Warns:
        BudgetWarning: what is a warning in ``tfcalc budget``, too.

    Raises:
        AssertionError: a budget failed, or cannot be compared; the text has the verdict and a line for each.
        BadFile: the file, or the config of a model, cannot be read.
        Unavailable: git or the revision cannot be reached.
    """
    __tracebackhide__ = True  # pytest shows the line that called it
    given = {"file": None if file is None else os.fspath(file), "base": base}
    settings = Settings({name: Given(value, FLAG, f"--{name}") for name, value in given.items() if value})
    checked = cast("BudgetReport", command("budget").answer(settings))
    for check in checked.checks:
        if check.status == WARNING:
            warnings.warn(BudgetWarning(printable(check.message)), stacklevel=2)
    if checked.exit_code:
        found = [
            f"{check.status}: {printable(check.message)}"
            for status in (FAILED, NOT_COMPARABLE)
            for check in checked.checks
            if check.status == status
        ]
        raise AssertionError("\n".join([verdict(checked), *found]))
