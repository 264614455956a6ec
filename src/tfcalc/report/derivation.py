"""A number of an answer that follows from others, or is given: where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Rounded, Sheet
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from tfcalc.report.explanation import Line
    from tfcalc.report.opened_explanation import OfDerivation

Number = int | float


class Term(NamedTuple):
    """A number that another one follows from.

    Attributes:
        path: how it is asked for; empty for a constant.
        value: it.
        what: what a constant is, or the command that has the number.
    """

    path: str
    value: Number
    what: str = ""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The answer of ``explain`` for a number of an answer that is no sum of matrices.

    Attributes:
        heading: the model.
        path: the number, as ``COMMAND.key.key``.
        of: the command whose answer has it.
        value: it.
        how: a rule by which its ``terms`` make it, as :class:`~tfcalc.report.opening.Rule` has them; ``answer`` of
            another command; ``given``; ``count``; ``formula``, of sizes alone; or ``found`` by a search.
        terms: what it follows from.
        formula: the terms put together.
        substituted: the same in numbers.
        note: where it comes from, in a line.
        legend: the meaning of each letter, of a formula.
    """

    heading: str
    path: str
    of: str
    value: Number
    how: str
    terms: tuple[Term, ...]
    formula: str
    substituted: str
    note: str
    model: dict[str, object]
    conventions: dict[str, object]
    legend: Mapping[str, str]

    @property
    def answer(self) -> Number:
        """The number, as explanations have it."""
        return self.value

    @property
    def lines(self) -> tuple[Line, ...]:
        """None: it is no sum of matrices."""
        return ()

    def sheet(self) -> Sheet:
        """A row for each term, and the number."""
        rows: list[list[Cell]] = [[each.path or each.what, _cell(each.value)] for each in self.terms]
        said = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.6g}"
        name = "sum" if self.how == "sum" else self.path
        told = [self.formula] if self.formula and name != "sum" else []
        return Sheet(
            title=f"{self.path}: {said}",
            subtitle=self.heading,
            columns=[Column("what", numeric=False), Column("value")],
            rows=[*rows, [name, _cell(self.value)]],
            quiet=self.value,
            notes=[
                *told,
                *([self.note] if self.note else []),
                *(f"{each.path}: {each.what}" for each in self.terms if each.path and each.what),
            ],
            legend=self.legend,
        )

    def opener(self) -> OfDerivation:
        """Where its numbers come from."""
        from tfcalc.report.opened_explanation import OfDerivation

        return OfDerivation(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "explain",
            "target": self.path,
            "path": self.path,
            "of": self.of,
            "model": self.model,
            "conventions": self.conventions,
            "value": self.value,
            "how": self.how,
            "formula": self.formula,
            "substituted": self.substituted,
            "terms": [{"path": each.path, "value": each.value, "what": each.what} for each in self.terms],
            "note": self.note,
            "items": [],
        }

    def __str__(self) -> str:
        from tfcalc.render import rendered

        return rendered(self.sheet(), "plain", Style())


def _cell(value: Number) -> Cell:
    return Rounded(value) if isinstance(value, float) else value
