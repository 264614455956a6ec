"""Markdown for a comment on a pull request, or for the summary of a step: the verdict, and what has to be looked at.

Names and reasons come from files that anyone can write who opens a pull request. They cannot break the table, add HTML,
or mention people.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import FAILED, NEW, PASSED, verdict
from tfcalc.budgets.formats.amounts import amounts
from tfcalc.budgets.formats.findings import FOUND, findings
from tfcalc.printable import printable
from tfcalc.render.markdown import line, text

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport, LimitCheck

PLAIN = re.compile(r"[\w./:=+%-]([\w./:=+% -]*[\w./:=+%-])?", re.ASCII)
"""Characters that a code span shows as they are."""
MARKS = re.compile(r"[!-/:-@\[-`{-~]")
"""ASCII punctuation, all of what Markdown may read as more than text."""


def render(checked: BudgetReport) -> str:
    """A table of all that did not just pass; the rest folded into one line."""
    told = [one.check for one in findings(checked, (*FOUND, NEW))]
    lines = [f"**{text(printable(verdict(checked)))}**"]
    if bases := sorted({check.base_name for check in told if check.base_name}):
        lines += ["", f"Compared with {', '.join(map(code, bases))}."]
    if told:
        lines += ["", *_table(told, checked.units)]
    if notes := [*(check.message for check in told if _needs_words(check)), *checked.notes]:
        lines += ["", *(f"- {line(printable(note))}" for note in notes)]
    if passed := [check for check in checked.checks if check.status == PASSED]:
        lines += ["", _folded(passed, checked.units)]
    return "\n".join(lines)


def _needs_words(check: LimitCheck) -> bool:
    """Return whether its row needs an explanation: of a warning's threshold, or of a missing baseline."""
    return check.status != FAILED or check.rule == "expires"


def _table(checks: list[LimitCheck], units: str) -> list[str]:
    scenarios, bases = any(check.scenario for check in checks), any(check.base is not None for check in checks)
    whys = {"why": "---"} if any(check.why for check in checks) else {}
    heading = {"result": "---", "model": "---"} | ({"scenario": "---"} if scenarios else {}) | {"metric": "---"}
    heading |= ({"before": "---:"} if bases else {}) | {"after": "---:", "limit": "---"} | whys
    return [_row(list(heading)), _row(list(heading.values()))] + [
        _row([cell for name, cell in _cells(check, units).items() if name in heading]) for check in checks
    ]


def _cells(check: LimitCheck, units: str) -> dict[str, str]:
    given = amounts(check, units)
    return {
        "result": check.status,
        "model": code(check.model),
        "scenario": code(check.scenario) if check.scenario else "",
        "metric": code(check.metric),
        "before": text(given.before),
        "after": text(given.after + (f" ({given.change})" if given.change else "")),
        "limit": code(f"{check.rule} {check.limit}"),
        "why": text(printable(check.why)),
    }


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(checks: list[LimitCheck], units: str) -> str:
    items = ", ".join(
        f"{code(check.model)} {code(check.metric)} {text(amounts(check, units).after)} "
        f"({code(f'{check.rule} {check.limit}')})"
        for check in checks
    )
    return f"<details><summary>{len(checks)} passed</summary>\n\n{items}\n\n</details>"


def code(name: str) -> str:
    """A name as code, in which nothing is a mention or a link.

    >>> code("memory.peak_bytes"), code("a`|<b>@c")
    ('`memory.peak_bytes`', '<code>a&#96;&#124;&#60;b&#62;&#64;c</code>')
    """
    shown = printable(name)
    if PLAIN.fullmatch(shown):
        return f"`{shown}`"
    return f"<code>{MARKS.sub(lambda one: f'&#{ord(one[0])};', shown)}</code>" if shown else ""
