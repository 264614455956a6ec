"""Models, configs or option sets side by side: sizes, parameters, FLOPs, bytes, and how they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.changed_fields import same_family
from tfcalc.analysis.common import check_arguments, check_plans
from tfcalc.answers.attribution import FieldsThatDiffer
from tfcalc.answers.compared import (
    ACTIVE,
    COUNTS,
    OF_KINDS,
    SIZES,
    TOTAL,
    VERDICTS,
    WORK_AND_MEMORY,
    ComparedModel,
    ComparedModels,
    Definitions,
    InOneRow,
    ModelNumbers,
    Operand,
    Quantity,
    Row,
    as_operand,
    kind_of_component,
    numbers_of,
    shared_length,
)
from tfcalc.answers.overview import SizesOfModel
from tfcalc.answers.verdict import on_gpus, served_on_gpus
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.declared import Key, Told, When, plain, record, records, text, texts
from tfcalc.report.opening import Same, ratio, total
from tfcalc.report.report import charts
from tfcalc.report.sheet import Cell, Column, Sheet, of
from tfcalc.search.gpus import of_card
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report.chart import Bars
    from tfcalc.search.gpus import Capacity

LEAST, MOST = 2, 8
"""Models that are compared at once."""
WIDE = 80
LABELS = 22
CELL = 16
"""Characters of the first column, and of a number and its ratio."""
LEAST_SHOWN, REST = 200, "embeddings and the rest"
"""A kind of parameters below one part in so many of the largest model is drawn with the rest."""
SMALL = 10
"""A kind of parameters below one part in so many, in all models, has no row in the table."""
UNSAID = SizesOfModel.family.name
"""What the names of models say."""


class SideBySide(Definitions):
    """Definitions that the numbers of a comparison were made by."""

    difference = text("to which model", lambda _: "to the first model")


class ModelInColumn(ComparedModel):
    """A model with all that it is compared by."""

    numbers = numbers_of((*SIZES, *COUNTS, *WORK_AND_MEMORY, *VERDICTS), OF_KINDS)


def of_each(kinds: Sequence[str], meaning: str, make: Callable[[Any], object], origin: Told) -> Key[Sequence[Any]]:
    """A value of each model."""
    return Key({"type": "array", "items": {"type": list(kinds)}, "description": meaning}, make, origin)


def in_model(place: int, key: str) -> str:
    """The path of a number of this model."""
    return f"models.{place}.{key}"


class RowOfModels(InOneRow):
    """A number of all models, beside that of the first."""

    unit = text("params, flops, bytes, or empty", lambda row: row.unit)
    values = of_each(
        ("integer", "number", "string", "null"),
        "of each model; null where it is not known, or the model has none",
        lambda row: row.values,
        Told(lambda row, place: Same(in_model(place, row.key))),
    )
    differences = of_each(
        ("integer", "number", "null"),
        "to the first model; null where they are no numbers",
        lambda row: [row.difference(place) for place in range(len(row.values))],
        Told(lambda row, place: total(in_model(place, row.key), less=in_model(0, row.key))),
    )
    ratios = of_each(
        ("number", "null"),
        "in multiples of the first model's",
        lambda row: [row.ratio(place) for place in range(len(row.values))],
        Told(lambda row, place: ratio(in_model(place, row.key), over=(in_model(0, row.key),))),
    )
    reasons = texts("why a value is not known; empty where it is", lambda row: row.reasons)


TWO_OF_A_FAMILY = When(lambda found: found.of_a_family, "fields")
"""Of two models with the same fields: which of them differ, and what each of these moves by itself."""


class Comparison(FieldsThatDiffer, in_order=True):
    """Models side by side: a row for each quantity, in exact numbers, each beside the same of the first model."""

    command, about = "compare", "Models side by side."

    conventions = record(SideBySide, "the definitions that the numbers were made by", lambda found: found)
    models = records(
        ModelInColumn, "what each model has, in the order in which they were named", ComparedModels.in_columns
    )
    rows = records(
        RowOfModels,
        "a row for each quantity; with --only-differences those that differ",
        lambda found: [row for row in found.table if row.differs or not found.only_differences],
    )
    fields = FieldsThatDiffer.fields.only(TWO_OF_A_FAMILY)
    moved = FieldsThatDiffer.moved.only(TWO_OF_A_FAMILY)
    not_attributed = FieldsThatDiffer.not_attributed.only(TWO_OF_A_FAMILY)

    def __init__(
        self, columns: Sequence[ModelNumbers], table: Sequence[Row], units: str, *, only_differences: bool
    ) -> None:
        super().__init__(columns, table, units)
        self.only_differences = only_differences

    @property
    def heading(self) -> str:
        """Names of the models."""
        return ", ".join(self.names)

    @property
    def card(self) -> Capacity | None:
        """The GPU that verdicts are about, if one was named."""
        return self.columns[0].card

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Workload of each model."""
        return tuple(column.workload for column in self.columns)

    @property
    def of_a_family(self) -> bool:
        """Return whether they are two models with the same fields."""
        models = [operand.model for operand in self.operands]
        return len(models) == LEAST and same_family(*models)

    def sheet(self) -> Sheet:
        """A row for each quantity that differs; equal ones are listed in one line."""
        shown = [row for row in self.table if (row.differs or row.quantity in VERDICTS) and not row.minor]
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
            quiet="\n".join(str(value) for value in self.row(TOTAL.key).values),
            notes=[
                *self._of_card(),
                *(self.moved_notes() if self.of_a_family else ()),
                *(() if self.only_differences else self._same()),
            ],
            assumes=tuple(self._assumes()),
            see_also=("--only-differences", "--format markdown", "--json"),
            detailed=self._detailed,
        )

    def pictures(self) -> tuple[Bars]:
        """Parameters of each model, by what they are for."""
        kinds = [column.kinds for column in self.columns]
        totals = [column.params.report().answer for column in self.columns]
        parts = dict.fromkeys(kind for sizes in kinds for kind in sizes)
        seen = [kind for kind in parts if any(sizes.get(kind, 0) * LEAST_SHOWN > max(totals) for sizes in kinds)]
        found: Bars = charts().Bars(
            title="Parameters of each model, by what they are for",
            parts=(*seen, REST),
            rows=tuple(
                (name, (*(sizes.get(kind, 0) for kind in seen), whole - sum(sizes.get(kind, 0) for kind in seen)))
                for name, sizes, whole in zip(self.names, kinds, totals, strict=True)
            ),
            unit="params",
        )
        return (found,)

    def _title(self, *, named: bool = True) -> str:
        """``gpt2 124M, gpt2-medium 355M parameters (×2.85)``."""
        whole = self.row(TOTAL.key)
        said = [whole.written(value, self.units) for value in whole.values]
        if named:
            said = [f"{name} {number}" for name, number in zip(self.names, said, strict=True)]
        ratio = whole.ratio(1) if len(said) == LEAST else None
        return f"{', '.join(said)} parameters" + ("" if ratio is None else f" ({_times(ratio)})")

    def _row(self, row: Row, *, two: bool) -> list[Cell]:
        first, *others = (
            row.cell(value, self.units, RowOfModels.values, place) for place, value in enumerate(row.values)
        )
        at = (Comparison.rows, row.key)
        cells: list[Cell] = [row.quantity.called, first]
        for place, said in enumerate(others, start=1):
            difference, ratio = row.difference(place), row.ratio(place)
            cells.append(said)
            if two:
                signed = "" if difference is None else f"{'+' * (difference > 0)}{row.written(difference, self.units)}"
                cells.append(of(signed, *at, RowOfModels.differences, place))
            cells.append(of("" if ratio is None else _times(ratio), *at, RowOfModels.ratios, place))
        return cells

    def _same(self) -> Iterator[str]:
        equal = (row for row in self.table if not (row.differs or row.minor or row.quantity in VERDICTS))
        same = [row for row in equal if row.values[0] is not None]
        if same:
            each = (f"{row.quantity.called} {row.written(row.values[0], self.units)}" for row in same)
            yield f"Same: {', '.join(each)}"

    def _of_card(self) -> Iterator[str]:
        if self.card is not None:
            plans = [operand.serving for operand in self.operands]
            yield from dict.fromkeys(
                (self.card if plan is None else self.card.serving(plan)).has(self.units) for plan in plans
            )
            yield from filter(None, (self.card.others,))

    def _assumes(self) -> Iterator[str]:
        lengths = dict.fromkeys(f"{one.batch_size:,} x {one.seq_len:,}" for one in self.workloads)
        yield f"FLOPs at {' and '.join(lengths)} tokens"
        yield "own number formats"
        if any(isinstance(numbers.cache_per_token, int) for numbers in self.columns):
            yield "KV cache of 1 request"
        planned = any(operand.training or operand.serving for operand in self.operands)
        if planned:
            yield "memory as tfcalc memory has it"
        elif self.card is not None:
            yield f"verdicts as tfcalc MODEL --gpu {self.card.card} has them"

    def _detailed(self) -> Sheet:
        """Return the sheet for programs: every row, in full."""
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
                    *plain(row.values),
                    *(cell for place in others for cell in (row.differences[place], row.ratios[place])),
                ]
                for row in self.rows
            ],
            quiet=self._title(),
        )


def compare(
    *models: Model | Operand | str,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    training: Training | None = None,
    serving: Serving | None = None,
    only_differences: bool = False,
    gpu: str | None = None,
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
        gpu: a GPU (``"h100"``): adds whether each model fits there, by these plans, or by those of
            :func:`~tfcalc.overview` where there are none.

    Returns:
        A comparison: its rows have a key with a unit, exact values, and differences and ratios to the first model.

    Raises:
        InvalidModel: a model, or a model on this workload, makes no sense.
        UsageError: fewer than 2 or more than 8 models; a GPU that is not known, or several without a plan.

    >>> found = compare("gpt2", "gpt2-medium")
    >>> found.row("total_params").values, found.row("total_params").difference(1)
    ((124439808, 354823168), 230383360)
    """
    if not LEAST <= len(models) <= MOST:
        count = "1 model" if len(models) == 1 else f"{len(models)} models"
        raise UsageError(f"{count} to compare", f"name {LEAST} to {MOST}")
    operands = renamed([as_operand(each, training, serving) for each in models])
    asked = workload or Workload(seq_len=shared_length(operands))
    for operand in operands:
        check_arguments(operand.model, operand.workload or asked, conventions)
        check_plans(operand.training, operand.serving)
    card = None if gpu is None else of_card(gpu, instead="")
    if card is not None and card.gpus > 1 and not all(operand.training or operand.serving for operand in operands):
        raise UsageError(f"{quoted(gpu)} are several GPUs", "add --train --fsdp, or --serve")
    if card is not None:
        operands = [
            operand._replace(
                training=operand.training and on_gpus(operand.training, card),
                serving=operand.serving and served_on_gpus(operand.serving, card),
            )
            for operand in operands
        ]
    columns = [ModelNumbers(operand, operand.workload or asked, card) for operand in operands]
    table = [row for row in _rows(columns) if any(value is not None for value in row.values)]
    units = (conventions or Conventions()).units
    return Comparison(columns, table, units, only_differences=only_differences)


def renamed(operands: Sequence[Operand]) -> list[Operand]:
    """The operands, of which those of one name are numbered."""
    names = [operand.name for operand in operands]
    return [
        operand._replace(name=f"{operand.name} ({names[: place + 1].count(operand.name)})")
        if names.count(operand.name) > 1
        else operand
        for place, operand in enumerate(operands)
    ]


def _rows(columns: Sequence[ModelNumbers]) -> Iterator[Row]:
    """A row for each quantity; kinds of components in the order of the first model's, and what only others have."""
    wholes = [column.value(TOTAL) for column in columns]
    kinds = dict.fromkeys(kind for column in columns for kind in column.kinds)
    counts: list[Quantity] = [*COUNTS, *map(kind_of_component, kinds)]
    for quantity in (*SIZES, *counts, *WORK_AND_MEMORY, *VERDICTS):
        row = Row.of(quantity, columns)
        minor = (
            quantity.key == UNSAID
            or (quantity == ACTIVE and list(row.values) == wholes)
            or (quantity in counts and _is_small(row.values, wholes))
        )
        yield row._replace(minor=minor)


def _is_small(values: Sequence[object], wholes: Sequence[object]) -> bool:
    """Return whether this number of parameters is less than 10 % of every model's."""
    return all(
        isinstance(value, int) and isinstance(whole, int) and value * SMALL < whole
        for value, whole in zip(values, wholes, strict=True)
    )


def _times(ratio: float) -> str:
    return f"×{ratio:.2f}" if ratio < 99.5 else f"×{ratio:,.0f}"
