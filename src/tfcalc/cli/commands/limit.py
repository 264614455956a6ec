"""A limit on the answer of a command: ``--max``, and the exit code of a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.cli.options import Option

if TYPE_CHECKING:
    from tfcalc.cli.settings import Settings
    from tfcalc.report import Report
    from tfcalc.report.answer import Answer

MOST = 10**30


def at_most(what: str, example: str) -> Option:
    """The option that limits an answer, which counts ``what``."""
    return Option("max", ("--max",), f"exit code 1 if there are more {what}: {example}", number=True, most=MOST)


def within(answer: Report, settings: Settings) -> Report:
    """The answer, held against --max where one is given."""
    limit = settings.get("max")
    return answer if limit is None else answer.held_to(limit)


def code(answer: Answer) -> int:
    """1 where it does not fit, or is over its limit."""
    return 0 if getattr(answer, "fits", True) else 1
