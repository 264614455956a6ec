"""The answer of ``tfcalc solve``: a size, what meets the condition beside it, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.stated import for_programs
from tfcalc.core.polynomial import symbol
from tfcalc.expressions.nodes import Number, names_of
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet
from tfcalc.report.style import Style
from tfcalc.solving.closed import Steps, written
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.expressions import Condition, Expression
    from tfcalc.model import Model
    from tfcalc.solving.asked import Asked
    from tfcalc.solving.opened import OfSolved
    from tfcalc.solving.single import Found, Row
    from tfcalc.solving.unknowns import Unknown

PLAIN = Style()
LONGEST_TITLE = 48
"""Characters of a closed form that stands in the title."""
LONGEST_FRACTION = 7
"""Characters of a fraction that a table shows as it is."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The answer of :func:`~tfcalc.solve` for one size.

    Attributes:
        condition: as it was asked.
        of: the quantity of parts that say none.
        unknowns: what was solved for.
        found: where it holds, the ends with their neighbours, and the closed forms.
        steps: how the closed form of the size follows, where there is one.
    """

    condition: str
    of: str
    asked: Asked
    unknowns: Sequence[Unknown]
    found: Found
    texts: Sequence[str]
    conditions: Sequence[Condition]
    steps: Steps | None
    symbolic: bool = False
    style: Style = PLAIN
    legend: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranges(self) -> tuple[tuple[int, int | None], ...]:
        """All sizes that meet the condition, as ranges from and to; None where there is no end."""
        last = self.found.domain.size(self.found.domain.last)
        open_end = not self.found.domain.listed and not self.found.limit
        return tuple((low, None if high == last and open_end else high) for low, high in self.found.ranges)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The ends and their neighbours, each with what both sides are there."""
        return self.found.rows

    @property
    def outcome(self) -> str:
        """What was found.

        ``always`` or ``never``; ``at most``, ``at least``, ``between``; of an equation ``exact``, ``crossing`` (both
        sides move: the sides change between two sizes) or ``nearest`` (a target that no size meets).
        """
        if not self.ranges:
            if not self.found.crossings:
                return "never"
            moving = all(self._moves(side) for side in (self.conditions[0].left, self.conditions[0].right))
            return "crossing" if moving else "nearest"
        if all(each.operator == "=" for each in self.conditions):
            whole = self.ranges[0] == (self._first, None)
            return "always" if whole else "exact"
        if len(self.ranges) > 1:
            return "between"
        ((low, high),) = self.ranges
        if low == self._first:
            return "always" if high is None else "at most"
        return "at least" if high is None else "between"

    @property
    def value(self) -> int | None:
        """The size, as ``-q`` prints it; None where none meets the condition, or all do.

        The largest of those that meet it, the smallest where there is no largest; of an equation the first that meets
        it, the first behind a crossing, or the nearest to a target.
        """
        match self.outcome:
            case "never" | "always":
                return None
            case "exact":
                return self.ranges[0][0]
            case "crossing":
                return self.found.domain.size(self.found.crossings[0][1])
            case "nearest":
                places = [self.found.domain.size(k) for pair in self.found.crossings for k in pair]
                near = [row for row in self.rows if self._size(row) in places]
                return self._size(min(near, key=lambda row: (abs(row.sides[0] - row.sides[1]), self._size(row))))
        last = self.ranges[-1]
        return last[0] if last[1] is None else last[1]

    @property
    def exit_code(self) -> int:
        """1 where no size meets the condition."""
        return 1 if self.outcome == "never" else 0

    @property
    def closed(self) -> str:
        """``l = 2h/3``: where both sides are equal, in letters; empty where there is no closed form."""
        return self._closed(self.style)

    def _closed(self, style: Style) -> str:
        if self.steps is None or not self.steps.equal:
            return ""
        letter = style.formula(symbol(self.unknowns[0].letter))
        return f"{letter} = {' or '.join(written(root, style) for root in self.steps.equal)}"

    @property
    def proof(self) -> str:
        """Why there is no other, in a line."""
        word, domain = self.unknowns[0].word, self.found.domain
        if self.outcome == "never" and self.steps is not None and self.steps.never:
            return self.steps.lines[-1]
        first, last = domain.size(domain.first), domain.size(domain.last)
        if domain.listed:
            return f"every {word} that fits was tried: {', '.join(f'{each:,}' for each in domain.listed)}"
        if self.found.exhaustive:
            return f"proven from {word} {first:,} to {_large(last)}: the closed form changes sign nowhere else"
        return "both sides evaluated at each line of the table; between, they are taken to rise or fall without a turn"

    @property
    def _first(self) -> int:
        return self.found.domain.size(self.found.domain.first)

    def _moves(self, side: Expression) -> bool:
        if isinstance(side, Number):
            return False
        if self.found.forms is None:
            return bool(names_of(side))
        return any(self.unknowns[0].letter in self.found.forms[name].free_symbols for name in names_of(side))

    def _size(self, row: Row) -> int:
        return row.sizes[self.unknowns[0].word]

    def opener(self) -> OfSolved:
        """Where its numbers come from."""
        from tfcalc.solving.opened import OfSolved

        return OfSolved(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        closed = Style()
        return {
            **head(self.condition, self.of, self.asked, self.unknowns, self._model),
            "outcome": self.outcome,
            "value": self.value,
            "ranges": [{"from": low, "to": high} for low, high in self.ranges],
            "step": self.found.domain.step,
            "rows": [row_to_dict(row) for row in self.rows],
            "proof": self.proof,
            "formula": self._closed(closed),
            "ascii": self._closed(Style(script="ascii")),
            "latex": self._closed(Style(script="latex")),
            "legend": dict(self.legend),
            "steps": list(self.steps.lines) if self.steps is not None else [],
        }

    def sheet(self) -> Sheet:
        """The size, and the table of the ends; with --symbolic the steps."""
        told_why = self.symbolic and self.outcome == "never"  # the last step says it
        notes = [*([] if told_why else [self.proof]), *self._about_sizes()]
        if self.symbolic and self.steps is not None:
            return Sheet(
                title=self._title(),
                subtitle=self._subtitle(),
                columns=[Column("step", numeric=False, folds=True)],
                rows=[[line] for line in (*self.steps.lines, *self._in_numbers())],
                quiet=self.closed or "never",
                notes=notes,
                legend=self.legend,
                see_also=("-q", "--json"),
            )
        equation = all(each.operator == "=" for each in self.conditions)
        columns, rows = table(self.rows, self.texts, self.conditions, self.asked, equation=equation)
        told = self.steps is not None and bool(self.steps.equal)
        return Sheet(
            title=self._title(),
            subtitle=self._subtitle(),
            columns=columns,
            rows=rows,
            quiet=self.value if self.value is not None else {"always": "any"}.get(self.outcome, "none"),
            notes=notes,
            see_also=("--symbolic", "--json") if told else ("--json",),
            legend=self.legend if self._shown_closed() else {},
        )

    def _shown_closed(self) -> str:
        return self.closed if len(self.closed) <= LONGEST_TITLE or self.symbolic else ""

    def _title(self) -> str:
        word, closed = self.unknowns[0].word, self._shown_closed()
        before = f"{closed}; " if closed else ""
        value = self.value
        match self.outcome:
            case "never":
                return f"NEVER: no value of {word} meets {self.condition}"
            case "always":
                return f"every value of {word} meets {self.condition}"
            case "exact":
                low, high = self.ranges[0]
                also = f", and {self._some(1, 5)}" if self.ranges[1:] else ""
                return f"{before}{word} {_range(low, high)} exactly{also}"
            case "crossing":
                left, right = self.texts[:2]
                rows = {self._size(row): row.sides for row in self.rows}
                assert value is not None
                more = rows[value][0] > rows[value][1]
                return f"{before}from {word} {value:,} on, {left} is {'above' if more else 'below'} {right}"
            case "nearest":
                return f"{before}{word} {value:,} is nearest; none meets it exactly"
            case "between":
                return f"{before}{word} {self._some(0, 4)}"
        return f"{before}{word}: {value:,} {self.outcome}"

    def _some(self, first: int, behind: int) -> str:
        """These of the ranges, and whether there are more."""
        shown = [_range(low, high) for low, high in self.ranges[first:behind]]
        return ", ".join([*shown, "…"] if self.ranges[behind:] else shown)

    def _subtitle(self) -> str:
        return f"{self.condition}: {self._model.summary}"

    @property
    def _model(self) -> Model:
        """The model, with the size that was found."""
        one, setting = self.unknowns[0], self.asked.setting
        return setting.at(one, self.value).model if one.owner == "model" and self.value else setting.model

    def _in_numbers(self) -> list[str]:
        """The whole sizes on both sides, as further lines of the steps."""
        numbers = {
            letter: number for letter, number in self.asked.numbers(self.unknowns).items() if letter in self.legend
        }
        if not numbers or self.outcome == "never":
            return []
        told = ", ".join(f"{self.style.formula(symbol(letter))} = {number:,}" for letter, number in numbers.items())
        return [f"with {told}: {self.unknowns[0].word} {' | '.join(f'{self._size(row):,}' for row in self.rows)}"]

    def _about_sizes(self) -> list[str]:
        domain, word = self.found.domain, self.unknowns[0].word
        told = []
        if domain.step > 1:
            told.append(f"{word} goes in steps of {domain.step:,}: {domain.why}")
        if self.found.limit:
            told.append(f"{word} ends at {domain.size(domain.last):,}: {self.found.limit}")
        return told


def head(condition: str, of: str, asked: Asked, unknowns: Sequence[Unknown], model: Model) -> dict[str, object]:
    """What all answers begin with."""
    setting = asked.setting
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "solve",
        "model": model.described(),
        "conventions": for_programs(
            "flops" if "flops" in asked.quantities else "params", setting.run, asked.conventions
        ),
        "condition": condition,
        "of": of,
        "for": [each.word for each in unknowns],
    }


def row_to_dict(row: Row) -> dict[str, object]:
    """Sizes by name, sides in the condition's order; what is no whole number as a fraction, ``"2/3"``."""
    return {
        "sizes": dict(row.sizes),
        "sides": [side if isinstance(side, int) else str(side) for side in row.sides],
        "holds": row.holds,
    }


def table(
    rows: Sequence[Row], texts: Sequence[str], conditions: Sequence[Condition], asked: Asked, *, equation: bool
) -> tuple[list[Column], list[list[Cell]]]:
    """A line for each row: sizes, sides, and by how much an equation is missed, or whether the condition holds."""
    from tfcalc.solving.single import sides_of

    bytes_of = [is_memory(side, asked) or is_memory(conditions[0].left, asked) for side in sides_of(conditions)]
    words = list(rows[0].sizes)
    last = "left - right" if equation else "holds"
    columns = [Column(word) for word in words] + [Column(text) for text in texts] + [Column(last, numeric=equation)]
    lines: list[list[Cell]] = []
    shown = {
        short_bytes(int(side)) for row in rows for side, is_bytes in zip(row.sides, bytes_of, strict=True) if is_bytes
    }
    exact = {int(side) for row in rows for side, is_bytes in zip(row.sides, bytes_of, strict=True) if is_bytes}
    bytes_of = [each and len(shown) == len(exact) for each in bytes_of]
    for row in rows:
        sides: list[Cell] = [cell(side, in_bytes) for side, in_bytes in zip(row.sides, bytes_of, strict=True)]
        apart: Cell = cell(row.sides[0] - row.sides[1], False) if equation else "yes" if row.holds else "no"
        lines.append([*row.sizes.values(), *sides, apart])
    return columns, lines


def is_memory(side: Expression, asked: Asked) -> bool:
    """Whether a side is an amount of memory."""
    names = names_of(side)
    return bool(names) and all(asked.meant[name].quantity == "memory" for name in names)


def cell(number: int | Fraction, in_bytes: bool) -> Cell:
    """A side's number in a table."""
    if isinstance(number, Fraction):
        return f"{number}" if len(f"{number}") <= LONGEST_FRACTION else f"{float(number):.9g}"
    return Bytes(number) if in_bytes else number


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{low:,} and above"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _large(number: int) -> str:
    figures = str(number)
    return f"10^{len(figures) - 1}" if figures.rstrip("0") == "1" and len(figures) > 7 else f"{number:,}"
