"""Two counts of the same model side by side: the verdict, and the rows that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tfcalc.analysis.quantities import QUANTITIES
from tfcalc.answers.conventions_text import PARAMETERS
from tfcalc.errors import Unavailable
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import (
    TOGETHER,
    Answer,
    Key,
    Record,
    Told,
    When,
    boolean,
    integer,
    records,
    shared,
    text,
    texts,
)
from tfcalc.report.opening import Rule, found, total
from tfcalc.report.sheet import Column, Sheet


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


class RowInUnit(NamedTuple):
    """A compared row, and the unit that it counts."""

    unit: str
    row: ComparedRow


def _counted(unit: str, meaning: str) -> Key[int]:
    """A component by tfcalc."""
    return integer(
        meaning,
        lambda one: one.row.counted,
        Told(lambda one: found(f"{one.path}: tfcalc's own count")),
        when=When(lambda one: one.unit == unit),
    )


def _referred(unit: str, meaning: str) -> Key[int]:
    """A component by the reference."""
    return integer(
        meaning,
        lambda one: one.row.reference,
        Told(lambda one: found(f"{one.path}: counted by the reference: {one.within.reference}")),
        when=When(lambda one: one.unit == unit),
    )


def _difference(component: ComparedComponent) -> Rule:
    unit = component.source.unit
    return total(f".{unit}", less=f".reference_{unit}")


class ComparedComponent(Record):
    """A component, counted by tfcalc and by the reference."""

    path = text("path of the component", lambda one: one.row.path)
    params = _counted("params", "parameters by tfcalc")
    reference_params = _referred("params", "parameters by the reference")
    flops = _counted("flops", "FLOPs by tfcalc")
    reference_flops = _referred("flops", "FLOPs by the reference")
    bytes = _counted("bytes", "bytes by tfcalc")
    reference_bytes = _referred("bytes", "bytes by the reference")
    difference = integer("tfcalc less reference", lambda one: one.row.difference, Told(_difference))


class CountedTwice(Answer):
    """A count of tfcalc beside that of a ``reference``; the last of the ``rows`` is the total."""

    command = "verify"
    about = "tfcalc's count beside that of PyTorch, transformers, a checkpoint, or your own class."
    stated: ClassVar[Sequence[str]] = ("reference",)
    exclusive = True
    unit: ClassVar[str] = "params"

    model = shared("model", lambda answer: dict(answer.described))
    conventions = shared("conventions", lambda answer: {**answer.definitions, "reference": answer.reference})
    agrees = boolean("whether every component agrees", lambda answer: answer.equal)
    verdict = text("the verdict in words", lambda answer: answer.in_a_line)
    compared = text("what was compared", lambda answer: answer.subjects)
    disagreements = texts("what differs beyond numbers: names, shapes", lambda answer: answer.further_differences)
    components = records(
        ComparedComponent,
        "a row for each component that either has",
        lambda answer: [RowInUnit(answer.unit, row) for row in answer.rows[:-1]],
        place=TOGETHER,
    )

    heading: str = ""
    reference: str
    described: Mapping[str, object]
    rows: tuple[ComparedRow, ...]


def sum_of(prefix: str = "") -> Told:
    """The sum of the components, by tfcalc or by the reference."""

    def told(answer: CountedTwice) -> Rule:
        return total(*(f"components.{place}.{prefix}{answer.unit}" for place in range(len(answer.rows) - 1)))

    return Told(told)


def _counted_in_all(answer: Any) -> int:
    return int(answer.rows[-1].counted)


def _referred_in_all(answer: Any) -> int:
    return int(answer.rows[-1].reference)


class Verification(CountedTwice):
    """Verdict of a comparison, and its rows; the last row is the total.

    ``compared`` says what was compared with what is ``against`` it (``148 tensors``, ``transformers 5.23.0``),
    ``column`` names the latter in a word, and ``reference`` in full. ``differences`` are those beyond the numbers
    (names, shapes). The unit that is counted is that of the class, by these ``conventions``.

    Raises NotComparable where there is nothing on either side.
    """

    def __init__(
        self,
        heading: str,
        compared: str,
        against: str,
        column: str,
        reference: str,
        rows: tuple[ComparedRow, ...],
        model: Mapping[str, object],
        conventions: Mapping[str, object] | None = None,
        differences: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        self.heading, self.subjects, self.against, self.column = heading, compared, against, column
        self.reference, self.rows, self.described = reference, rows, model
        self.definitions = conventions or {"parameters": PARAMETERS}
        self.further_differences, self.notes = differences, notes
        if not any(self.rows[-1][1:]):
            raise NotComparable(f"cannot compare: {self.heading} has no {self._counted_in}, nor has {self.against}")

    @property
    def equal(self) -> bool:
        """Return whether every row agrees, not only the total."""
        return not any(row.difference for row in self.rows) and not self.further_differences

    @property
    def in_a_line(self) -> str:
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


class VerifiedParams(Verification):
    """Parameters, counted twice."""

    form = "in params"
    record_keys: ClassVar[Mapping[str, Sequence[str]]] = {"components": ("params", "reference_params")}

    total_params = integer("parameters by tfcalc", _counted_in_all, sum_of())
    reference_params = integer("parameters by the reference", _referred_in_all, sum_of("reference_"))


class VerifiedFlops(Verification):
    """FLOPs, counted twice."""

    form = "in flops"
    record_keys: ClassVar[Mapping[str, Sequence[str]]] = {"components": ("flops", "reference_flops")}
    unit = "flops"

    total_flops = integer("FLOPs by tfcalc", _counted_in_all, sum_of())
    reference_flops = integer("FLOPs by the reference", _referred_in_all, sum_of("reference_"))


class VerifiedBytes(Verification):
    """Bytes, counted twice."""

    form = "in bytes"
    record_keys: ClassVar[Mapping[str, Sequence[str]]] = {"components": ("bytes", "reference_bytes")}
    unit = "bytes"

    total_bytes = integer("bytes by tfcalc", _counted_in_all, sum_of())
    reference_bytes = integer("bytes by the reference", _referred_in_all, sum_of("reference_"))


def side_by_side(ours: dict[str, int], theirs: dict[str, int]) -> tuple[ComparedRow, ...]:
    """A row for each name that either has, in our order, and the total."""
    names = dict.fromkeys([*ours, *theirs])
    rows = [ComparedRow(name, ours.get(name, 0), theirs.get(name, 0)) for name in names]
    rows = [row for row in rows if row.counted or row.reference]
    return (*rows, ComparedRow("total", sum(ours.values()), sum(theirs.values())))
