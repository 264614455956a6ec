"""Where the numbers of a comparison come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.opened_totals import Totals
from tfcalc.report.opening import Opener, Same, Way, ratio, total

if TYPE_CHECKING:
    from tfcalc.analysis.side_by_side import Comparison
    from tfcalc.report.paths import Step


class OfComparison(Opener):
    """Each model's numbers are answers of its own; the rows put them beside those of the first."""

    def __init__(self, found: Comparison) -> None:
        self.found = found
        self.heading = ", ".join(found.names)
        self.totals = [Totals(*each) for each in zip(found.operands, found.workloads, strict=True)]

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a model's total, or of a row."""
        match steps:
            case ("models", int(place), str(key)):
                return self.totals[place].of(key)
            case ("rows", int(row), "values", int(place)):
                return Same(self._path(row, place))
            case ("rows", int(row), "differences", int(place)):
                return total(self._path(row, place), less=self._path(row, 0))
            case ("rows", int(row), "ratios", int(place)):
                return ratio(self._path(row, place), over=(self._path(row, 0),))
        return None

    def _path(self, row: int, place: int) -> str:
        """The same number among those of its model."""
        return f"models.{place}.{self.found.shown[row].key}"
