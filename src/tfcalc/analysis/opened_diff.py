"""Where the numbers of a diff come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.changed_fields import with_fields
from tfcalc.analysis.opened_totals import Totals
from tfcalc.report.opening import Constant, Opener, Same, Way, given, ratio, total

if TYPE_CHECKING:
    from tfcalc.analysis.diff_report import Diff
    from tfcalc.analysis.totals import Operand
    from tfcalc.report.paths import Step

SIDES = {"old": 0, "new": 1}


class OfDiff(Opener):
    """Both models' numbers are answers of their own, and so are those of the first with some fields changed."""

    def __init__(self, found: Diff) -> None:
        self.found = found
        self.heading = " -> ".join(operand.name for operand in found.operands)
        self.totals = [Totals(self._trained(place), found.workload) for place in SIDES.values()]
        self.changed: dict[int, Totals] = {}

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a model's number, of a row, or of a field that differs."""
        match steps:
            case ("models", int(place), str(key)):
                return self.totals[place].of(key)
            case ("rows", int(row), "old" | "new" as side):
                return Same(f"models.{SIDES[side]}.{self.found.rows[row].key}")
            case ("moved", int(change), "rows", int(row), "old"):
                return Same(f"models.0.{self.found.moved[change].rows[row].key}")
            case ("moved", int(change), "rows", int(row), "new"):
                return self._changed(change).of(self.found.moved[change].rows[row].key)
            case (*above, "difference"):
                path = ".".join(map(str, above))
                return total(f"{path}.new", less=f"{path}.old")
            case (*above, "percent"):
                path = ".".join(map(str, above))
                return ratio(Constant(100, "per cent"), f"{path}.difference", over=(f"{path}.old",))
            case ("fields", int(place), "old" | "new" as side, *_):
                name = self.found.operands[SIDES[side]].name
                return given(f"{self.found.fields[place].path} in the config of {name}")
        return None

    def _changed(self, change: int) -> Totals:
        """The first model with these fields of the second."""
        if change not in self.changed:
            first, fields = self._trained(0), self.found.moved[change].fields
            name = f"{first.name} with {', '.join(field.said for field in fields)}"
            operand = first._replace(name=name, model=with_fields(first.model, fields))
            self.changed[change] = Totals(operand, self.found.workload)
        return self.changed[change]

    def _trained(self, place: int) -> Operand:
        """One of both, trained by the plan of the first."""
        return self.found.operands[place]._replace(training=self.found.operands[0].training)
