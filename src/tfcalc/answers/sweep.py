"""A sweep as an answer of the command line: a table of its points, JSON by columns, and a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.chart import Chart, Curve
from tfcalc.report.declared import Answer, Key, Record, Told, integer, records, shared, text
from tfcalc.report.opening import Constant, Rule, Way, count, found, given, ratio
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, Tokens, of

if TYPE_CHECKING:
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


class TableColumn(NamedTuple):
    """A column of a table, by its name."""

    table: Table
    name: str


def _value(column: SweptColumn, point: int) -> Way:
    """A size is given; the quantity is that of the command which asks for the sizes of this point alone."""
    table = column.within.table
    if column.name != table.key:
        return given(f"one of the values of {column.name}")
    sizes = {name: int(some[point]) for name, some in table.columns.items() if name != table.key}
    called = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    here: SweepQuestion = column.within.question.placed_at(sizes)
    return here.question(called).number(table.key)


class SweptColumn(Record):
    """A column: a size or the answers, at each point."""

    name = text("the size, or the key that a single answer has for the number", lambda column: column.name)
    unit = text("params, flops, bytes or tokens; empty for other sizes", lambda column: column.table.units[column.name])
    values: Key[list[int | None]] = Key(
        {
            "type": "array",
            "items": {"type": ["integer", "null"]},
            "description": "exact integers; null where there is no such model",
        },
        lambda column: column.table[column.name].tolist(),
        Told(_value),
    )


class Refusal(Record):
    """A reason why points have no answer."""

    points = integer(
        "how many points have none for this reason",
        lambda refused: refused.points,
        count("the points that have no answer for this reason"),
    )
    first = integer(
        "the first of them, counted from 0",
        lambda refused: refused.first,
        found("the place of the first of them among all points, from 0"),
    )
    message = text("what is wrong there", lambda refused: refused.error.message)
    hint = text("what would do", lambda refused: refused.error.hint)


def _points(swept: Swept) -> Rule:
    """The product of how many values each size has."""
    return ratio(*(Constant(each, f"values of {name}") for name, each in swept.axes.items()))


class Swept(Answer):
    """The ``table`` of a ``model``, by these conventions; ``heading`` names the model, ``units`` are iec or si.

    ``question`` is what is asked at each point.
    """

    command = "sweep"
    about = "One quantity at many points: a column of each size that was given several values, and one of answers."

    of = text("quantity: params, trainable, flops, memory or cache", lambda swept: swept.table.of)
    model = shared("model", lambda swept: swept.described)
    conventions = shared("conventions", lambda swept: swept.definitions)
    points = integer("rows of each column", lambda swept: swept.table.rows, Told(_points))
    columns = records(
        SweptColumn,
        "the sizes, then the answers",
        lambda swept: [TableColumn(swept.table, name) for name in swept.table.columns],
    )
    refused = records(Refusal, "why points have no answer", lambda swept: swept.table.refused)

    def __init__(
        self,
        table: Table,
        described: Mapping[str, object],
        definitions: Mapping[str, object],
        called: str,
        units: str,
        question: SweepQuestion,
    ) -> None:
        self.table, self.described, self.definitions = table, described, definitions
        self.called, self.units, self.question = called, units, question

    @property
    def heading(self) -> str:
        """The model, and what is swept."""
        return self.called

    @property
    def axes(self) -> dict[str, int]:
        """Number of values of each swept size."""
        table = self.table
        return {name: len(set(column.tolist())) for name, column in table.columns.items() if name != table.key}

    @property
    def words(self) -> str:
        """Quantity in words."""
        return self.question.headline.words

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
            [self._cell(name, value, place) for name, value in zip(columns, row, strict=True)]
            for place, row in enumerate(zip(*columns.values(), strict=True))
        ]
        counted = f"{table.rows:,} point{'s' * (table.rows != 1)}"
        return Sheet(
            title=f"{self.words}, {counted}",
            subtitle=self.heading,
            columns=[Column(self.words if name == table.key else name) for name in columns],
            rows=rows,
            quiet=" ".join("-" if value is None else str(value) for value in columns[table.key]),
            notes=list(self._notes()),
            see_also=("--chart", "--format csv", "-o FILE.svg"),
        )

    def _cell(self, name: str, value: int | None, place: int) -> Cell:
        if value is None:
            return "-"
        shown: dict[str, Cell] = {"tokens": Tokens(value), "bytes": Bytes(value)}
        return of(shown.get(self.table.units[name], value), Swept.columns, name, SweptColumn.values, place)

    def _notes(self) -> Iterator[str]:
        for each in self.table.refused:
            yield f"{each.points:,} without an answer, such as: {each.error}"

    def pictures(self) -> tuple[Chart, ...]:
        """The curves, where they are few enough for a chart."""
        try:
            return (self.chart(),)
        except UsageError:
            return ()

    def chart(self) -> Chart:
        """Curves over the size with most values, one for each combination of the others."""
        table = self.table
        sizes = [name for name in table.columns if name != table.key]
        different = self.axes
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
            y=self.words,
            unit=table.unit,
            length=table.units[across] == "tokens",
            curves=tuple(Curve(label, tuple(sorted(points))) for label, points in curves.items()),
            units=self.units,
        )
