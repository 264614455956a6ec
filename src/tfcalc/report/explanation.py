"""The answer of ``explain``: everything that a number is the sum of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Factors, InNumbers, Order, Sheet, for_people
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from tfcalc.report.opened_explanation import OfExplanation

Growth = Callable[[Polynomial], Polynomial]


class Line(NamedTuple):
    """Items of one size that stand side by side: their factors in symbols and in numbers, ``value`` of all together.

    ``order`` is what their time grows like, where that is asked for.
    """

    where: str
    names: tuple[str, ...]
    symbols: Factors
    numbers: Factors
    formula: Polynomial
    value: int
    note: str
    order: Polynomial | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of :func:`~tfcalc.explain`: one number, matrix by matrix.

    Attributes:
        heading: the model.
        target: the part, as it was asked for.
        path: its path in the tree.
        of: ``params``, ``flops`` or ``memory``.
        quantity: the same in words.
        unit: the suffix of its JSON key.
        lines: one per matrix or group of equal ones: names, factors in symbols and numbers, formula and value.
        formula: the sum of the lines' formulas.
        sizes: what each letter stands for.
        substituted: the formula with sizes instead of letters.
        answer: the exact sum.
        exact: where the lines leave out biases and norms, the count with them; else None.
        legend: the meaning of each letter.
    """

    heading: str
    target: str
    path: str
    of: str
    quantity: str
    unit: str
    lines: tuple[Line, ...]
    formula: Polynomial
    sizes: Mapping[str, str]
    answer: int
    legend: Mapping[str, str]
    model: dict[str, object]
    conventions: dict[str, object]
    notes: tuple[str, ...]
    order: Polynomial | None = None
    exact: int | None = None

    @property
    def substituted(self) -> str:
        """The formula with sizes instead of letters, as text."""
        return Style().in_numbers(self.formula, self.sizes)

    def growing(self, each: Growth, whole: Growth) -> Explanation:
        """The same with what ``each`` line grows like, and the ``whole``."""
        lines = tuple(line._replace(order=each(line.formula)) for line in self.lines)
        order = whole(self.formula)
        letters = order.free_symbols.union(*(line.formula.free_symbols for line in lines))
        legend = {letter: meaning for letter, meaning in self.legend.items() if letter in letters}
        return replace(self, lines=lines, order=order, legend=legend)

    def sheet(self) -> Sheet:
        """A row per matrix, under a row for its module, and the sum."""
        rows: list[list[Cell]] = []
        depths = []
        for where, lines in groupby(self.lines, key=lambda line: line.where):
            if where:
                rows.append([where, "", "", "", ""])
                depths.append(0)
            for line in lines:
                rows.append([", ".join(line.names), line.symbols, line.numbers, line.formula, line.value])
                depths.append(1 if where else 0)
        rows.append(["sum", "", InNumbers(self.formula, self.sizes), self.formula, self.answer])
        if self.order is not None:
            return self._growth([*depths, 0])
        remarks = dict.fromkeys(f"{', '.join(line.names)}: {line.note}" for line in self.lines if line.note)
        return Sheet(
            title=f"{self.target}: {self.answer:,} {self.quantity}",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("what", numeric=False, folds=True),
                Column("in symbols", numeric=False, spare=2),
                Column("in numbers", numeric=False, folds=True, spare=1),
                Column("formula", numeric=False, folds=True),
                Column("value"),
            ],
            rows=rows,
            quiet=self.answer,
            notes=[*remarks, *self.notes],
            legend=self.legend,
            depths=[*depths, 0],
        )

    def _growth(self, depths: list[int]) -> Sheet:
        """A row per step: how often it runs, and what that grows like; the sum keeps what nothing else outgrows."""
        rows: list[list[Cell]] = []
        for where, lines in groupby(self.lines, key=lambda line: line.where):
            rows += [[where, "", "", ""]] if where else []
            rows += [[", ".join(line.names), line.symbols, line.formula, _order(line.order)] for line in lines]
        return Sheet(
            title=f"{self.target}: {for_people(_order(self.order), Style())}",
            subtitle=f"{self.path} of {self.heading}",
            columns=[
                Column("step", numeric=False, folds=True),
                Column("in symbols", numeric=False, spare=1),
                Column("formula", numeric=False, folds=True),
                Column("time", numeric=False),
            ],
            rows=[*rows, ["sum", "", self.formula, _order(self.order)]],
            quiet=_order(self.order),
            notes=self.notes,
            legend=self.legend,
            depths=depths,
        )

    def opener(self) -> OfExplanation:
        """Where its numbers come from."""
        from tfcalc.report.opened_explanation import OfExplanation

        return OfExplanation(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "explain",
            "target": self.target,
            "path": self.path,
            "of": self.of,
            "model": self.model,
            "conventions": self.conventions,
            **self._counted(),
            "formula": write(self.formula),
            "substituted": self.substituted,
            "items": [
                {
                    "where": line.where,
                    "names": list(line.names),
                    "copies": line.numbers.copies[0],
                    "factors": list(line.numbers.each),
                    "in_symbols": for_people(line.symbols, Style()),
                    self.unit: line.value,
                    "formula": write(line.formula),
                    "note": line.note,
                    **({} if line.order is None else {"order": write(line.order)}),
                }
                for line in self.lines
            ],
            **({} if self.order is None else {"order": write(self.order)}),
        }

    def _counted(self) -> dict[str, int]:
        if self.exact is None:
            return {f"total_{self.unit}": self.answer}
        return {f"total_{self.unit}": self.exact, f"approx_{self.unit}": self.answer}

    def __str__(self) -> str:
        from tfcalc.render import rendered

        return rendered(self.sheet(), "plain", Style())


def _order(growth: Polynomial | None) -> Cell:
    return "" if growth is None else Order(growth)
