"""An answer held against a limit: the same for programs, and one line for people, which is the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.errors import UsageError
from tfcalc.units import parse_count, short

if TYPE_CHECKING:
    from tfcalc.analysis.verdict import Fit
    from tfcalc.report.answer import Answer
    from tfcalc.report.sheet import Sheet


class Limited(NamedTuple):
    """The ``answer`` to a question, whose ``value`` is to be at most ``limit``; both count the ``unit``.

    ``unit`` is ``params`` or ``flops``, as in the keys of the JSON; ``shown`` is the answer as people see it.
    """

    answer: Answer
    unit: str
    limit: int
    value: int
    shown: Sheet

    @property
    def headroom(self) -> int:
        """What is left; below 0 what is too many."""
        return self.limit - self.value

    @property
    def fits(self) -> bool:
        """Whether it is within the limit."""
        return self.headroom >= 0

    @property
    def verdict(self) -> str:
        """``OVER BUDGET: 8.03B parameters (8,030,261,248), at most 1.4B (6.63B too many)``."""
        billion = "B" if self.unit == "params" else "G"
        apart = short(abs(self.headroom), billion=billion)
        beyond = f"{apart} to spare" if self.fits else f"{apart} too many"
        limit = in_full(self.limit, billion)
        return f"{'WITHIN' if self.fits else 'OVER'} BUDGET: {self.shown.title}, at most {limit} ({beyond})"

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of the answer, and the verdict."""
        found = self.answer.to_dict()
        components = found.pop("components")
        return {
            **found,
            "verdict": self.verdict,
            f"limit_{self.unit}": self.limit,
            "within_limit": self.fits,
            f"headroom_{self.unit}": self.headroom,
            "components": components,
        }

    def sheet(self) -> Sheet:
        """The verdict alone."""
        return _alone(self.verdict, self.shown)


def limited(answer: Answer, unit: str, limit: int) -> Limited:
    """The answer held against a limit on the number that ``-q`` prints of it."""
    shown = answer.sheet()
    assert isinstance(shown.quiet, int), "a limit is for a whole number"
    return Limited(answer, unit, limit, shown.quiet, shown)


class InOneLine(NamedTuple):
    """Whether it fits into an amount of memory, of which people are told the verdict alone."""

    fit: Fit

    @property
    def fits(self) -> bool:
        """Whether it fits."""
        return self.fit.fits

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: the keys of the memory report, the verdict and what would fit."""
        return self.fit.to_dict()

    def sheet(self) -> Sheet:
        """The verdict alone."""
        return _alone(self.fit.verdict, self.fit.sheet())


def in_full(count: int, billion: str = "G") -> str:
    """A count as people write it, without a digit less than it has: ``1.4B``, ``1,234,567``.

    >>> in_full(1_400_000_000, "B"), in_full(1_234_567), in_full(10**23)
    ('1.4B', '1,234,567', '1e+23')
    """
    said = short(count, billion=billion)
    try:
        return said if parse_count(said) == count else f"{count:,}"
    except UsageError:  # beyond all that has a prefix
        return f"{count:,}"


def _alone(verdict: str, sheet: Sheet) -> Sheet:
    """A sheet of one line, below which the assumptions stand where they are asked for."""
    return type(sheet)(verdict, (), (), sheet.quiet, assumptions=sheet.assumptions)
