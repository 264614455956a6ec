"""GitHub Actions: a workflow command for each finding, which GitHub shows as an annotation at a line of a file.

The rules of escaping are those of GitHub's own toolkit (actions/toolkit, packages/core: command.ts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NEW, NOT_COMPARABLE, WARNING, verdict
from tfcalc.budgets.formats.findings import FOUND, findings, named
from tfcalc.budgets.formats.markdown import render as markdown
from tfcalc.budgets.formats.paths import reference
from tfcalc.errors import UsageError
from tfcalc.printable import inert, printable, quoted

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport, LimitCheck

LEVELS = {FAILED: "error", NOT_COMPARABLE: "error", WARNING: "warning", NEW: "notice"}
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable with the path of the file that GitHub shows as the summary of a step."""


def render(checked: BudgetReport) -> str:
    """Annotations, the errors first, then the verdict, which GitHub leaves in the log."""
    annotations = [_annotation(one.check) for one in findings(checked, (*FOUND, NEW))]
    notes = [f"::notice::{_data(note)}" for note in checked.notes]
    return "\n".join([*annotations, *notes, inert(printable(verdict(checked)))])


def summarize(checked: BudgetReport, environ: Mapping[str, str]) -> None:
    """Append the markdown to the file that ``GITHUB_STEP_SUMMARY`` names; nothing where it names none.

    Raises UsageError where that file cannot be written.
    """
    path = environ.get(SUMMARY)
    if not path:
        return
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(markdown(checked) + "\n\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can be called so"
        raise UsageError(f"{SUMMARY}: cannot write {quoted(path)}: {why}", f"unset {SUMMARY}") from None


def _annotation(check: LimitCheck) -> str:
    properties = {
        "file": _property(reference(check.path)),
        "line": str(max(check.line, 1)),
        "title": _property(printable(f"{named(check)}: {check.status}")),
    }
    listed = ",".join(f"{key}={value}" for key, value in properties.items() if value)
    return f"::{LEVELS[check.status]} {listed}::{_data(check.message)}"


def _data(text: str) -> str:
    """Message after the second ``::``, on one line.

    >>> _data("100%: ::error::")
    '100%25: ::error::'
    """
    return _escaped(printable(text))


def _property(text: str) -> str:
    """The value of a property, which ends at a comma or a colon."""
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
