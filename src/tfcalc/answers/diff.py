"""Two models, or two revisions of one: what changed in the config, what that moved, and which field moved what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.common import check_arguments, check_plans
from tfcalc.answers.attribution import (
    QUANTITIES,
    TRAINED,
    FieldsThatDiffer,
    RowOfTwo,
    counted,
    in_brackets,
    per_cent,
    percent,
    rows_of,
    telling,
)
from tfcalc.answers.compared import (
    CACHE_PER_TOKEN,
    FORWARD,
    TOTAL,
    ComparedModel,
    ComparedModels,
    Definitions,
    ModelNumbers,
    Operand,
    Row,
    as_operand,
    numbers_of,
    shared_length,
)
from tfcalc.answers.memory_base import called, of_training
from tfcalc.errors import InvalidModel
from tfcalc.plans import Training
from tfcalc.report.declared import HEAD, Unknown, boolean, plain, record, records, text
from tfcalc.report.sheet import Cell, Column, Sheet, of
from tfcalc.revisions import at_ref
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.answers.training_memory import TrainingMemory
    from tfcalc.model import Model

ASKED = (TOTAL, FORWARD, TRAINED, CACHE_PER_TOKEN)
"""What is said also where it stays the same."""


class BetweenTwo(Definitions):
    """Definitions that the numbers of a diff were made by."""

    training = text(
        "what is trained, and how; empty where its memory is not known", lambda found: ", ".join(found.trained)
    )
    difference = text("to which model", lambda _: "to the first model")


class ModelOfTwo(ComparedModel):
    """One of both, with what a change may move."""

    numbers = numbers_of(QUANTITIES, {})


class Diff(FieldsThatDiffer, in_order=True):
    """Two models: a row for each number, in exact values; the fields that differ; and what each of them moved alone.

    ``trained`` says what is trained how.
    """

    command, about = "diff", "What changed between two models, and what each change moves."

    changed = boolean("whether any field or any number differs", lambda found: found.differs, place=HEAD)
    conventions = record(BetweenTwo, "the definitions that the numbers were made by", lambda found: found)
    models = records(ModelOfTwo, "both models", ComparedModels.in_columns)
    rows = records(RowOfTwo, "both models' numbers", lambda found: found.table)

    def __init__(self, columns: Sequence[ModelNumbers], units: str) -> None:
        old, new = columns
        super().__init__(columns, rows_of(old, new), units)
        assert self.attribution  # what cannot be asked is refused here
        self.trained = _trained(old)

    @property
    def heading(self) -> str:
        """Names of both models."""
        return " -> ".join(self.names)

    @property
    def workload(self) -> Workload:
        """Workload of both models."""
        return self.columns[0].workload

    @property
    def differs(self) -> bool:
        """Return whether anything differs: a field, or a number."""
        return bool(self.attribution.fields) or any(row.differs for row in self.table)

    @property
    def path(self) -> str:
        """The path of both, at whichever revisions; empty where they are of different names."""
        paths = {name if (found := at_ref(name)) is None else found[1] for name in self.names}
        return paths.pop() if len(paths) == 1 else ""

    def sheet(self) -> Sheet:
        """A row for each number that moved, and below the table a line for each field."""
        return Sheet(
            title=self._sentence(),
            subtitle=" -> ".join(self.names),
            columns=[
                Column("", numeric=False, folds=True),
                Column("before"),
                Column("after"),
                Column("change"),
                Column("%", spare=1),
            ],
            rows=[self._cells(row) for row in self._shown()],
            quiet=of(_number(self.row(TOTAL.key)), Diff.rows, TOTAL.key, RowOfTwo.difference),
            notes=tuple(self._notes()),
            assumes=self._assumes(),
            see_also=("--format markdown", "--json"),
            detailed=self._detailed,
        )

    def _shown(self) -> list[Row]:
        return telling(self.table)

    def _sentence(self) -> str:
        """``configs/model.json: parameters 8.03B -> 9.1B (+13.4 %)``: the first number that moved."""
        path, shown = f"{self.path}: " if self.path else "", self._shown()
        if not self.differs:
            return f"{path}nothing changed"
        if not shown:
            return f"{path}{counted(len(self.attribution.fields), 'field')} changed, and nothing that is counted"
        row = shown[0]
        old, new = (row.written(value, self.units) for value in row.values)
        return f"{path}{row.quantity.called} {old} -> {new}{in_brackets(row)}"

    def _cells(self, row: Row) -> list[Cell]:
        old, new = row.values
        at = (Diff.rows, row.key)
        return [
            row.quantity.called,
            row.cell(old, self.units, RowOfTwo.old),
            row.cell(new, self.units, RowOfTwo.new),
            of(self.change(row), *at, RowOfTwo.difference),
            of(percent(row), *at, RowOfTwo.percent),
        ]

    def _notes(self) -> Iterator[str]:
        yield from self.moved_notes()
        yield from self._unknown()
        same = [row for row in self.table if row.quantity in ASKED and not row.differs]
        numbers = [row for row in same if isinstance(row.values[0], int | float)]
        if numbers:
            listed = (f"{row.quantity.called} {row.written(row.values[0], self.units)}" for row in numbers)
            yield f"Same: {', '.join(listed)}"

    def _unknown(self) -> Iterator[str]:
        """A line for what cannot be said of a model."""
        for row in self.table:
            if row.quantity not in ASKED:
                continue
            reasons = dict.fromkeys(value.reason for value in row.values if isinstance(value, Unknown))
            for reason in reasons:
                yield f"{row.quantity.called}: {reason}"

    def _assumes(self) -> tuple[str, ...]:
        run = self.workload
        trained = (f"training: {', '.join(self.trained)}",) if self.trained else ()
        return (f"FLOPs at {run.batch_size:,} x {run.seq_len:,} tokens", *trained)

    def _detailed(self) -> Sheet:
        """Return the sheet for programs: all numbers in full, and those of each field alone."""
        rows: list[list[Cell]] = [["", *_exactly(row)] for row in self.table]
        for one in self.attribution.moved:
            name = "; ".join(field.path for field in one.fields)
            rows += [[name, *_exactly(row)] for row in one.rows if row.differs]
        return Sheet(
            title=self._sentence(),
            columns=[
                Column("changed alone", numeric=False),
                Column("quantity", numeric=False),
                Column("unit", numeric=False),
                *map(Column, ("before", "after", "difference", "percent")),
            ],
            rows=rows,
            quiet=_number(self.row(TOTAL.key)),
        )


def diff(
    first: Model | Operand | str,
    second: Model | Operand | str,
    *,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    training: Training | None = None,
) -> Diff:
    """Compare the ``second`` model with the first: the fields that differ, and the effect of each on its own.

    Args:
        first: a name that :func:`~tfcalc.load` takes (``"HEAD~1:config.json"``), a model, or an :class:`Operand`.
        second: the same.
        workload: sequences and their length in tokens, of FLOPs and of training; by default one sequence of 4,096
            tokens, or of as many as both models read.
        conventions: the ``units`` that bytes are shown in.
        training: the plan of the training step whose peak is compared; by default full training as
            :func:`~tfcalc.memory` has it.

    Returns:
        A diff: ``rows`` have exact values of both, ``moved`` the same of each field that is changed alone in the first
        model, ``fields`` all that differ. ``changed`` is false where nothing does.

    Raises:
        InvalidModel: one of the models, or a model on this workload, makes no sense.

    >>> found = diff("gpt2", "gpt2-medium")
    >>> [field.path for field in found.fields][:3]
    ['n_embd', 'n_head', 'n_layer']
    >>> found.row("total_params").difference(1)
    230383360
    """
    first_operand, second_operand = (as_operand(each, training or Training(), None) for each in (first, second))
    plan = first_operand.training or Training()
    operands = [first_operand, second_operand._replace(training=plan)]
    run = workload or first_operand.workload or Workload(seq_len=shared_length(operands))
    check_plans(plan, None)
    for operand in operands:
        check_arguments(operand.model, run, conventions)
    columns = [ModelNumbers(operand, run) for operand in operands]
    return Diff(columns, (conventions or Conventions()).units)


def _trained(numbers: ModelNumbers) -> tuple[str, ...]:
    """The training step, as ``tfcalc memory --train`` has it; nothing where its memory is not known.

    Raises UsageError for what has no effect on it.
    """
    assert numbers.training is not None
    try:
        step = cast("TrainingMemory", numbers.training.report())
        assert step.answer  # what is not known is refused here
        said = of_training(numbers.model, step.run, step.plan)
    except InvalidModel:
        return ()
    said = said.removeprefix(f"{called(numbers.model)}, ").removeprefix("training, ")
    return (said, *step.footer.assumes)


def _exactly(row: Row) -> list[Cell]:
    return [row.key, row.unit, *plain(row.values), row.difference(1), per_cent(row)]


def _number(row: Row) -> int:
    difference = row.difference(1)
    assert isinstance(difference, int)
    return difference
