"""Checks of every outcome, and names and reasons that try to be more than text."""

from __future__ import annotations

from tfcalc.budgets.checks import BudgetReport, CheckedLimit, FileLine
from tfcalc.budgets.limits import Limit

GIB = 2**30
MAX = Limit("24GiB", 24 * GIB, percent=False)

HOSTILE = (
    "]]>",
    "<script>alert(1)</script>",
    "a & b &amp; c",
    "a | b \\| c",
    "two\nlines\r\nand more",
    "100%0A::error::%25",
    "::error file=x::y",
    "##[error]",
    "**bold** _it_ ~~no~~ `code` ``two``",
    "[link](https://example.org) ![x](y)",
    "@ada and #12, GH-7",
    "# heading",
    "- item",
    "1. item",
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER} größe 模型",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "half \ud83d and \udcff",
    "bell \x07 nul \x00 esc \x1b[31m",
    "not a character \ufffe",
    "{0} {{1}} {",
    "  spaces  ",
    "$\\sqrt{x}$ \\",
    "a,b:c;d",
    "\"quoted\" 'too'",
    "</details>",
)


def check(status: str = "failed", **other: object) -> CheckedLimit:
    """A peak that doubled from 16 to 32 GiB where 24 are allowed."""
    given = CheckedLimit(
        model="chat",
        scenario="finetune",
        metric="memory.peak_bytes",
        unit="bytes",
        rule="max",
        limit=MAX,
        value=32 * GIB,
        base=16 * GIB,
        base_name="origin/main",
        status=status,
        why="one RTX 4090 per worker",
        message="memory.peak_bytes 16.0 GiB -> 32.0 GiB, 8.00 GiB over max 24GiB: one RTX 4090 per worker",
        place=FileLine("configs/chat.json", 7),
    )
    return given._replace(**other)  # type: ignore[arg-type]


def checked(*checks: CheckedLimit, notes: tuple[str, ...] = ()) -> BudgetReport:
    return BudgetReport("tfcalc.toml", checks, notes)


def hostile(text: str) -> BudgetReport:
    """The text wherever text from outside is."""
    other = {"model": text, "scenario": text, "metric": text, "why": text, "message": text, "base_name": text}
    places = [check(status, **other, place=FileLine(text.replace("\0", ""), 1)) for status in STATUSES]
    return checked(*places, notes=(text,))


STATUSES = ("passed", "warning", "failed", "new", "not comparable")
EXPIRED = check(rule="expires", limit=Limit("2026-01-31", 0, percent=False), value=None, base=None, base_name="")
EXAMPLES = {
    "nothing": checked(),
    **{status: checked(check(status)) for status in STATUSES},
    "all": checked(*map(check, STATUSES), *map(check, STATUSES), notes=("chat is new",)),
    "two models": checked(check(), check("warning", model="embed"), check("passed", model="embed", base=None)),
    "expired": checked(EXPIRED._replace(message="the budget expired on 2026-01-31: one RTX 4090 per worker")),
    "floats": checked(check(unit="", value=0.125, base=0.1, limit=Limit("10%", 10.0, percent=True))),
    "negative": checked(check(unit="params", value=-1, base=0, limit=Limit("0", 0, percent=False), rule="min")),
}
