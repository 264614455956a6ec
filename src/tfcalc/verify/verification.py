"""Two counts of the same model side by side: the verdict, and the rows that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfcalc.questions.quantities import QUANTITIES
from tfcalc.questions.stated import PARAMETERS
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Column, Sheet


class Row(NamedTuple):
    """One component, counted twice."""

    path: str
    counted: int
    reference: int

    @property
    def difference(self) -> int:
        """Tfcalc less the reference."""
        return self.counted - self.reference


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict, and the rows that it rests on; the last row is the total.

    ``disagreements`` are those beyond the numbers (shapes). ``against`` is who else counted, ``column`` that in a word.
    ``unit`` is what is counted, by these ``conventions``.
    """

    heading: str
    against: str
    column: str
    reference: str
    rows: tuple[Row, ...]
    model: dict[str, Any]
    unit: str = "params"
    conventions: Mapping[str, Any] | None = None
    disagreements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every row does, not only the total."""
        return not any(row.difference for row in self.rows) and not self.disagreements

    def sheet(self) -> Sheet:
        """A row per component."""
        verdict, total = "agrees with" if self.agrees else "DIFFERS from", self.rows[-1]
        counts = f"{total.counted:,} and {total.reference:,} {QUANTITIES.get(self.unit, self.unit)}"
        return Sheet(
            title=f"tfcalc {verdict} {self.against}: {counts}",
            columns=[
                Column("component", numeric=False),
                Column("tfcalc"),
                Column(self.column),
                Column("difference"),
            ],
            rows=[[row.path, row.counted, row.reference, row.difference] for row in self.rows],
            quiet=total.difference,
            notes=[*self.disagreements, self.heading, self.reference, *self.notes],
        )

    def to_dict(self) -> dict[str, Any]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "verify",
            "model": self.model,
            "conventions": {**(self.conventions or {"parameters": PARAMETERS}), "reference": self.reference},
            "agrees": self.agrees,
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


def side_by_side(ours: dict[str, int], theirs: dict[str, int]) -> tuple[Row, ...]:
    """A row for each name that either has, in our order, and the total."""
    names = dict.fromkeys([*ours, *theirs])
    rows = [Row(name, ours.get(name, 0), theirs.get(name, 0)) for name in names]
    rows = [row for row in rows if row.counted or row.reference]
    return (*rows, Row("total", sum(ours.values()), sum(theirs.values())))
