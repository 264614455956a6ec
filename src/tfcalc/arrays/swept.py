"""A sweep as an answer of the command line: a table of its points, JSON by columns, and a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfcalc.errors import UsageError
from tfcalc.report.chart import Chart, Curve
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfcalc.arrays.opened import OfSwept
    from tfcalc.arrays.questions import SweepQuestion
    from tfcalc.arrays.table import Table

LARGEST_TABLE = 10_000
"""Rows of a table that people read."""
LARGEST_TEXT = 1_000_000
"""Points that are written as text, CSV or JSON: a second or two."""
LARGEST_FILE = 5_000_000
"""Points of a file of columns."""
AT_ONCE = 10_000
MOST_CURVES = 10
LARGEST_CHART = 5_000
WORDS = {
    "total_params": "parameters",
    "trainable_params": "trainable parameters",
    "total_flops": "FLOPs",
    "total_bytes": "memory at rest",
    "peak_bytes": "peak memory",
    "kv_cache_bytes": "KV cache",
}


def grid(values: Mapping[str, Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Arrays that broadcast to each combination of the values, those of the last name next to each other."""
    each = [np.asarray(some, np.int64) for some in values.values()]
    return dict(zip(values, np.meshgrid(*each, indexing="ij", sparse=True), strict=True))


@dataclass(frozen=True)
class Swept:
    """The ``table`` of a ``model``, by these ``conventions``; ``heading`` names the model, ``units`` are iec or si.

    ``question`` is what is asked at each point.
    """

    table: Table
    model: Mapping[str, object]
    conventions: Mapping[str, object]
    heading: str
    units: str
    question: SweepQuestion

    @property
    def axes(self) -> dict[str, int]:
        """Number of values of each swept size."""
        return {name: len(np.unique(column)) for name, column in self.table.columns.items() if name != self.table.key}

    @property
    def words(self) -> str:
        """Quantity in words."""
        return WORDS[self.table.key]

    def opener(self) -> OfSwept:
        """Origins of its numbers."""
        from tfcalc.arrays.opened import OfSwept

        return OfSwept(self)

    def to_dict(self) -> dict[str, object]:
        """The answer for programs: a list for each column, null where there is no answer."""
        table = self.table
        return {
            "schema_version": 1,
            "command": "sweep",
            "of": table.of,
            "model": dict(self.model),
            "conventions": dict(self.conventions),
            "points": table.rows,
            "columns": [
                {"name": name, "unit": table.units[name], "values": values} for name, values in table.to_dict().items()
            ],
            "refused": [
                {"points": each.points, "first": each.first, "message": each.error.message, "hint": each.error.hint}
                for each in table.refused
            ],
        }

    def csv(self) -> Iterator[str]:
        """A line of names, then a line for each point, nothing where there is no answer: many lines at once."""
        columns = self.table.columns
        yield ",".join(columns)
        for start in range(0, self.table.rows, AT_ONCE):
            some = [column[start : start + AT_ONCE].tolist() for column in columns.values()]
            rows = zip(*some, strict=True)
            yield "".join("\n" + ",".join(["" if value is None else str(value) for value in row]) for row in rows)

    def sheet(self) -> Sheet:
        """The answer for people."""
        table = self.table
        if table.rows > LARGEST_TABLE:
            remedy = "add --format csv, --json, or -o FILE.parquet"
            raise UsageError(f"a table of {table.rows:,} points is too long to read", remedy)
        columns = table.to_dict()
        rows = [
            [self._cell(name, value) for name, value in zip(columns, row, strict=True)]
            for row in zip(*columns.values(), strict=True)
        ]
        counted = f"{table.rows:,} point{'s' * (table.rows != 1)}"
        return Sheet(
            title=f"{self.words}, {counted}",
            subtitle=self.heading,
            columns=[Column(name) for name in columns],
            rows=rows,
            quiet=" ".join("-" if value is None else str(value) for value in columns[table.key]),
            notes=list(self._notes()),
            see_also=("--chart", "--format csv", "-o FILE.svg"),
        )

    def _cell(self, name: str, value: int | None) -> Cell:
        if value is None:
            return "-"
        if self.table.units[name] == "tokens":
            return Tokens(value)
        return Bytes(value) if self.table.units[name] == "bytes" else value

    def _notes(self) -> Iterator[str]:
        for each in self.table.refused:
            yield f"{each.points:,} without an answer, such as: {each.error}"

    def chart(self) -> Chart:
        """Curves over the size with most values, one for each combination of the others."""
        table = self.table
        sizes = [name for name in table.columns if name != table.key]
        different = {name: len(np.unique(table[name])) for name in sizes}
        across = max(reversed(sizes), key=lambda name: different[name])
        others = [name for name in sizes if name != across and different[name] > 1]
        curves: dict[str, list[tuple[int, float]]] = {}
        columns = table.to_dict()
        for row in zip(*columns.values(), strict=True):
            at = dict(zip(columns, row, strict=True))
            x, y = at[across], at[table.key]
            if x is not None and y is not None:
                curves.setdefault(", ".join(f"{name} {at[name]:,}" for name in others), []).append((x, y))
        if len(curves) > MOST_CURVES or table.rows > LARGEST_CHART:
            fact = f"{len(curves):,} curves of {table.rows:,} points are too many for a chart"
            raise UsageError(fact, f"draw at most {MOST_CURVES} curves, and {LARGEST_CHART:,} points")
        return Chart(
            title=f"{self.heading}: {self.words}",
            x=across,
            y=table.key,
            unit=table.unit,
            length=table.units[across] == "tokens",
            curves=tuple(Curve(label, tuple(sorted(points))) for label, points in curves.items()),
            units=self.units,
        )
