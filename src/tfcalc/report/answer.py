"""Protocol that the answers to all questions have in common; for the type checker alone."""

from __future__ import annotations

from typing import Protocol

from tfcalc.report.sheet import Sheet


class Answered(Protocol):
    """Interface of the answer to any question."""

    def to_dict(self) -> dict[str, object]:
        """The answer for programs."""
        ...

    def sheet(self) -> Sheet:
        """The answer for people."""
        ...
