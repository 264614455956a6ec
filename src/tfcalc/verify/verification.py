"""Two counts of the same model side by side: the verdict, and the rows that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.answers.conventions_text import PARAMETERS
from tfcalc.errors import Unavailable
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Column, Sheet

if TYPE_CHECKING:
    from tfcalc.verify.opened import OfVerification


class ComparedRow(NamedTuple):
    """One component, counted twice."""

    path: str
    counted: int
    reference: int

    @property
    def difference(self) -> int:
        """Tfcalc less the reference."""
        return self.counted - self.reference


class NotComparable(Unavailable):
    """Raised where the reference has nothing to compare with (exit 4, as a reference that cannot be reached)."""

    code = "not-comparable"


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdict of a comparison, and its rows; the last row is the total.

    ``compared`` says what was compared with what is ``against`` it (``148 tensors``, ``transformers 5.23.0``),
    ``column`` names the latter in a word, and ``reference`` in full. ``disagreements`` are those beyond the numbers
    (names, shapes). ``unit`` is what is counted, by these ``conventions``.
    """

    heading: str
    compared: str
    against: str
    column: str
    reference: str
    rows: tuple[ComparedRow, ...]
    model: dict[str, object]
    unit: str = "params"
    conventions: Mapping[str, object] | None = None
    disagreements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises NotComparable where there is nothing on either side."""
        if not any(self.rows[-1][1:]):
            raise NotComparable(f"cannot compare: {self.heading} has no {self._counted_in}, nor has {self.against}")

    @property
    def agrees(self) -> bool:
        """Return whether every row agrees, not only the total."""
        return not any(row.difference for row in self.rows) and not self.disagreements

    @property
    def verdict(self) -> str:
        """Comparison and its result: ``agrees: 148 tensors, 124,439,808 parameters equal to …``."""
        total = self.rows[-1]
        if self.agrees:
            return f"agrees: {self.compared}, {total.counted:,} {self._counted_in} equal to {self.against}"
        parts = self.rows[:-1]
        apart = sum(row.difference != 0 for row in parts)
        where = [f"{apart} of {len(parts)} rows"] * (apart > 0) + [*self.disagreements[:1]]
        return (
            f"DIFFERS: {total.counted:,} {self._counted_in} by tfcalc, {total.reference:,} by {self.against} "
            f"({'; '.join(where)})"
        )

    @property
    def _counted_in(self) -> str:
        return QUANTITIES.get(self.unit, self.unit)

    def sheet(self) -> Sheet:
        """A row per component."""
        return Sheet(
            title=self.verdict,
            subtitle=self.heading,
            columns=[
                Column("component", numeric=False),
                Column("tfcalc"),
                Column(self.column),
                Column("difference"),
            ],
            rows=[[row.path, row.counted, row.reference, row.difference] for row in self.rows],
            quiet=self.rows[-1].difference,
            notes=[*self.disagreements, self.reference],
            assumptions=self.notes,
        )

    def opener(self) -> OfVerification:
        """Origins of its numbers."""
        from tfcalc.verify.opened import OfVerification

        return OfVerification(self, self.unit, self.reference)

    def to_dict(self) -> dict[str, object]:
        """JSON object of the answer."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "verify",
            "model": self.model,
            "conventions": {**(self.conventions or {"parameters": PARAMETERS}), "reference": self.reference},
            "agrees": self.agrees,
            "verdict": self.verdict,
            "compared": self.compared,
            "disagreements": list(self.disagreements),
            f"total_{self.unit}": self.rows[-1].counted,
            f"reference_{self.unit}": self.rows[-1].reference,
            "components": [
                {
                    "path": row.path,
                    self.unit: row.counted,
                    f"reference_{self.unit}": row.reference,
                    "difference": row.difference,
                }
                for row in self.rows[:-1]
            ],
        }


def side_by_side(ours: dict[str, int], theirs: dict[str, int]) -> tuple[ComparedRow, ...]:
    """A row for each name that either has, in our order, and the total."""
    names = dict.fromkeys([*ours, *theirs])
    rows = [ComparedRow(name, ours.get(name, 0), theirs.get(name, 0)) for name in names]
    rows = [row for row in rows if row.counted or row.reference]
    return (*rows, ComparedRow("total", sum(ours.values()), sum(theirs.values())))
