"""Models, configs or option sets side by side: sizes, parameters, FLOPs, bytes, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.common import check_arguments, check_plans
from tfcalc.analysis.numbers import (
    Unknown,
)
from tfcalc.analysis.totals import ACTIVE, PARAMS, TOTAL, Groups, Operand, Quantity, Value, totals
from tfcalc.answers.overview import LENGTH, NONE
from tfcalc.conventions import Conventions
from tfcalc.errors import UsageError
from tfcalc.plans import Serving
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Sheet
from tfcalc.units import short, short_bytes
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.opened_comparison import OfComparison
    from tfcalc.model import Model
    from tfcalc.plans import Training

LEAST, MOST = 2, 8
"""Models that are compared at once."""
WIDE = 80
LABELS = 22
CELL = 16
"""Characters of the first column, and of a number and its ratio."""
SMALL = 10
"""A kind of parameters below one part in so many, in all models, has no row in the table."""
UNSAID = "family"
"""What the names of models say."""


class Row(NamedTuple):
    """One quantity of all models; a ``minor`` one stands in the JSON and the CSV alone."""

    quantity: Quantity
    values: tuple[Value, ...]
    minor: bool = False

    @property
    def key(self) -> str:
        """Its key in the JSON."""
        return self.quantity.key

    @property
    def unit(self) -> str:
        """What is counted; "" of sizes and names."""
        return self.quantity.unit

    @property
    def differs(self) -> bool:
        """Whether the models have unlike values."""
        return any(value != self.values[0] for value in self.values)

    def difference(self, place: int) -> int | float | None:
        """How much more than the first this one has; None where they are no numbers."""
        first, value = self.values[0], self.values[place]
        return value - first if isinstance(first, int | float) and isinstance(value, int | float) else None

    def ratio(self, place: int) -> float | None:
        """How many times the first; None where they are no numbers, or the first is 0."""
        first, value = self.values[0], self.values[place]
        numbers = isinstance(first, int | float) and isinstance(value, int | float)
        return value / first if numbers and first else None  # type: ignore[operator]  # both are numbers


def said(unit: str, value: Value, units: str) -> str:
    """``8.03B`` parameters, ``17.2G`` FLOPs, ``128 KiB``; a size in full."""
    if value is None:
        return NONE
    if isinstance(value, Unknown):
        return value.short.partition(":")[0]
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return short_bytes(value, units)
    return short(value, billion="B" if unit == "params" else "G") if unit else f"{value:,}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models side by side: a row for each quantity, in exact numbers, each beside the same of the first model."""

    operands: tuple[Operand, ...]
    workloads: tuple[Workload, ...]
    rows: tuple[Row, ...]
    only_differences: bool = False
    units: str = "iec"

    def row(self, key: str) -> Row:
        """The row of this key."""
        return next(row for row in self.rows if row.key == key)

    @property
    def names(self) -> tuple[str, ...]:
        """What the operands are called."""
        return tuple(operand.name for operand in self.operands)

    @property
    def shown(self) -> list[Row]:
        """The rows that were asked for."""
        return [row for row in self.rows if row.differs or not self.only_differences]

    def opener(self) -> OfComparison:
        """Where its numbers come from."""
        from tfcalc.analysis.opened_comparison import OfComparison

        return OfComparison(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: what each model has, and how it differs from the first."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "compare",
            "conventions": {
                "flops": "multiply-add = 2, matrix products only, masked pairs counted",
                "weights": "in the checkpoint's own format",
                "kv_cache": "of one request, paged, in the format computed in",
                "difference": "to the first model",
            },
            "models": [
                {
                    "name": operand.name,
                    "model": dict(operand.model.described()),
                    "batch_size": workload.batch_size,
                    "seq_len": workload.seq_len,
                    **{row.key: plain(row.values[place]) for row in self.rows},
                }
                for place, (operand, workload) in enumerate(zip(self.operands, self.workloads, strict=True))
            ],
            "rows": [
                {
                    "key": row.key,
                    "unit": row.unit,
                    "values": [plain(value) for value in row.values],
                    "differences": [row.difference(place) for place in range(len(row.values))],
                    "ratios": [row.ratio(place) for place in range(len(row.values))],
                    "reasons": [value.reason if isinstance(value, Unknown) else "" for value in row.values],
                }
                for row in self.shown
            ],
        }

    def sheet(self) -> Sheet:
        """A row for each quantity that differs; equal ones are listed in one line."""
        shown = [row for row in self.rows if row.differs and not row.minor]
        lettered = LABELS + sum(max(len(name), CELL) + 2 for name in self.names) > WIDE
        headings = [chr(ord("A") + place) for place in range(len(self.names))] if lettered else list(self.names)
        two = len(self.names) == LEAST
        others = [] if two else headings[1:]
        return Sheet(
            title=self._title(named=not lettered),
            subtitle="; ".join(map(": ".join, zip(headings, self.names, strict=True))) if lettered else "",
            columns=[
                Column("", numeric=False, folds=True),
                Column(headings[0]),
                *([Column(headings[1]), Column("difference", spare=1), Column("ratio", spare=2)] if two else []),
                *(
                    column
                    for each in others
                    for column in (Column(each), Column(f"{each}/{headings[0]}" if lettered else "ratio", spare=1))
                ),
            ],
            rows=[self._row(row, two=two) for row in shown],
            depths=[int(row.quantity.part) for row in shown],
            quiet="\n".join(str(value) for value in self.row("total_params").values),
            notes=[] if self.only_differences else list(self._same()),
            assumes=tuple(self._assumes()),
            see_also=("--only-differences", "--format markdown", "--json"),
            detailed=self._detailed(),
        )

    def _title(self, *, named: bool = True) -> str:
        """``gpt2 124M, gpt2-medium 355M parameters (×2.85)``."""
        whole = self.row("total_params")
        said = [self._said(whole, value) for value in whole.values]
        if named:
            said = [f"{name} {number}" for name, number in zip(self.names, said, strict=True)]
        ratio = whole.ratio(1) if len(said) == LEAST else None
        return f"{', '.join(said)} parameters" + ("" if ratio is None else f" ({_times(ratio)})")

    def _row(self, row: Row, *, two: bool) -> list[Cell]:
        first, *others = (self._said(row, value) for value in row.values)
        cells: list[Cell] = [row.quantity.called, first]
        for place, said in enumerate(others, start=1):
            difference, ratio = row.difference(place), row.ratio(place)
            cells.append(said)
            if two:
                cells.append("" if difference is None else f"{'+' * (difference > 0)}{self._said(row, difference)}")
            cells.append("" if ratio is None else _times(ratio))
        return cells

    def _said(self, row: Row, value: Value) -> str:
        return said(row.unit, value, self.units)

    def _same(self) -> Iterator[str]:
        same = [row for row in self.rows if not row.differs and not row.minor and row.values[0] is not None]
        if same:
            yield f"Same: {', '.join(f'{row.quantity.called} {self._said(row, row.values[0])}' for row in same)}"

    def _assumes(self) -> Iterator[str]:
        lengths = dict.fromkeys(f"{one.batch_size:,} x {one.seq_len:,}" for one in self.workloads)
        yield f"FLOPs at {' and '.join(lengths)} tokens"
        yield "own number formats"
        if any(isinstance(value, int) for value in self.row("kv_cache_bytes_per_token").values):
            yield "KV cache of 1 request"
        if any(operand.training or operand.serving for operand in self.operands):
            yield "memory as tfcalc memory has it"

    def _detailed(self) -> Sheet:
        """The same for programs: every row, in full."""
        others = range(1, len(self.names))
        return Sheet(
            title=self._title(),
            subtitle=" and ".join(self.names),
            columns=[
                Column("quantity", numeric=False),
                Column("unit", numeric=False),
                *(Column(name) for name in self.names),
                *(Column(f"{what} {self.names[place]}") for place in others for what in ("difference", "ratio")),
            ],
            rows=[
                [
                    row.key,
                    row.unit,
                    *(plain(value) for value in row.values),
                    *(cell for place in others for cell in (row.difference(place), row.ratio(place))),
                ]
                for row in self.shown
            ],
            quiet=self._title(),
        )

    def __str__(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "plain", Style())

    def _repr_html_(self) -> str:
        from tfcalc.render import rendered
        from tfcalc.report.style import Style

        return rendered(self.sheet(), "html", Style())


def compare(
    *models: Model | Operand | str,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    only_differences: bool = False,
) -> Comparison:
    """Two or more ``models`` side by side, as ``tfcalc compare A B`` prints them.

    Args:
        models: each a name that :func:`~tfcalc.load` takes, a model, or an :class:`Operand` with a workload and plans
            of its own.
        workload: sequences and their length in tokens, of FLOPs and of training; by default one sequence of 4,096
            tokens, or of as many as all of the models read.
        conventions: the ``units`` that bytes are shown in.
        training: adds the peak of a training step by this plan, in bytes.
        serving: adds the peak of serving by this plan, in bytes.
        only_differences: leave out what is the same in all.

    Returns:
        A comparison: its rows have a key with a unit, exact values, and differences and ratios to the first model.

    Raises:
        InvalidModel: a model, or a model on this workload, makes no sense.
        UsageError: fewer than 2 or more than 8 models.

    >>> found = compare("gpt2", "gpt2-medium")
    >>> found.row("total_params").values, found.row("total_params").difference(1)
    ((124439808, 354823168), 230383360)
    """
    if not LEAST <= len(models) <= MOST:
        count = "1 model" if len(models) == 1 else f"{len(models)} models"
        raise UsageError(f"{count} to compare", f"name {LEAST} to {MOST}")
    operands = renamed([as_operand(each, training, serving) for each in models])
    asked = workload or Workload(seq_len=shared_length(operands))
    workloads = tuple(operand.workload or asked for operand in operands)
    for operand, its in zip(operands, workloads, strict=True):
        check_arguments(operand.model, its, conventions)
        check_plans(operand.training, operand.serving)
    columns = [totals(operand, its) for operand, its in zip(operands, workloads, strict=True)]
    rows = [row for row in _rows(columns) if any(value is not None for value in row.values)]
    return Comparison(tuple(operands), workloads, tuple(rows), only_differences, (conventions or Conventions()).units)


def as_operand(each: Model | Operand | str, training: Training | None, serving: Serving | None) -> Operand:
    """A model by name, or a model, with the plans that it has none of its own for. Raises as :func:`compare`."""
    if isinstance(each, str):
        from tfcalc.catalog import load

        return Operand(each, load(each), None, training, serving)
    if isinstance(each, Operand):
        return each._replace(training=each.training or training, serving=each.serving or serving)
    check_arguments(each, None, None)
    return Operand(getattr(each, "name", "") or each.summary, each, None, training, serving)


def renamed(operands: Sequence[Operand]) -> list[Operand]:
    """Those of one name are numbered."""
    names = [operand.name for operand in operands]
    return [
        operand._replace(name=f"{operand.name} ({names[: place + 1].count(operand.name)})")
        if names.count(operand.name) > 1
        else operand
        for place, operand in enumerate(operands)
    ]


def shared_length(operands: Sequence[Operand]) -> int:
    """As many tokens as all of them read, 4,096 at most."""
    longest = (operand.model.longest for operand in operands)
    return min([LENGTH, *(length for length in longest if isinstance(length, int))])


def _rows(columns: Sequence[Groups]) -> Iterator[Row]:
    """In the order of the first model's, with what only others have behind its like."""
    for group in zip(*columns, strict=True):
        for quantity in dict.fromkeys(quantity for column in group for quantity in column):
            missing = 0 if quantity.unit == "params" else None
            values = tuple(column.get(quantity, missing) for column in group)
            unsaid = quantity == ACTIVE and values == tuple(column[PARAMS][TOTAL] for column in columns)
            unsaid = unsaid or quantity.key == UNSAID
            yield Row(quantity, values, unsaid or (quantity.unit == "params" and _is_small(values, columns)))


def _is_small(values: Sequence[Value], columns: Sequence[Groups]) -> bool:
    """Whether so many parameters are less than 10 % of every model's."""
    wholes = [column[PARAMS][TOTAL] for column in columns]
    return all(
        isinstance(value, int) and isinstance(whole, int) and value * SMALL < whole
        for value, whole in zip(values, wholes, strict=True)
    )


def plain(value: Value) -> int | float | str | None:
    """For programs, which find the reason of what is not known beside it."""
    return None if isinstance(value, Unknown) else value


def _times(ratio: float) -> str:
    return f"×{ratio:.2f}" if ratio < 99.5 else f"×{ratio:,.0f}"
