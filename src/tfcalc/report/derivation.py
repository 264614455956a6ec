"""A number of an answer that follows from others, or is given: where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.declared import (
    TOGETHER,
    Key,
    Record,
    as_field,
    choice,
    number,
    records,
    text,
)
from tfcalc.report.explanation import Explained
from tfcalc.report.opening import given
from tfcalc.report.sheet import Cell, Column, Rounded, Sheet
from tfcalc.units import IN_DIGITS, bytes_in_words, short_bytes

if TYPE_CHECKING:
    from tfcalc.report.explanation import Line
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

Number = int | float
HOW = (
    *("sum", "difference", "ratio", "floor", "remainder", "rounded", "relative", "least", "most", "expression"),
    *("answer", "formula", "given", "count", "found"),
)


class DerivationTerm(NamedTuple):
    """A number that another one follows from.

    Attributes:
        path: how it is asked for; empty for a constant.
        value: it.
        what: what a constant is, or the command that has the number.
    """

    path: str
    value: Number
    what: str = ""


class TermOfDerivation(Record):
    """A number that another one follows from."""

    path = text("path of a number that explain opens; empty for a constant", lambda term: term.path)
    value = number("the number", lambda term: term.value)
    what = text("what a constant is, or the command that has the number; may be empty", lambda term: term.what)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:  # noqa: ARG002  # it has one number
        """Yield its only origin: a number of the answer that was explained, or a constant."""
        yield given(f"the number at {self.path}, which explain opens" if self.path else self.what)


@dataclass(frozen=True, kw_only=True, repr=False)
class Derivation(Explained):
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

    form = "a number that follows from others, or is given"

    value: Key[Number] = number("the number; of a number that follows from others, or is given")
    how: Key[str] = choice(
        HOW,
        "how its terms make it: their sum, a difference (the sum of all but the last, less the last), a product or a "
        "ratio, its floor, remainder or nearest number of two decimals, by what fraction the first is above the "
        "second, the least or the most of them, or the formula of a condition; the answer of another command; a closed "
        "form; given; how many there are; or found by a simulation, a search or another program",
        typed=False,
    )
    substituted: Key[str] = as_field(Explained.substituted)
    terms: tuple[DerivationTerm, ...]
    terms_ = records(
        TermOfDerivation,
        "what the number follows from, in the order of the formula",
        lambda found: found.terms,
        place=TOGETHER,
    )
    note: Key[str] = text("where the number comes from, in a line; may be empty", place=TOGETHER)
    legend: Mapping[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> Number:
        """The number, as explanations have it."""
        return self.value

    @property
    def lines(self) -> tuple[Line, ...]:
        """Empty tuple: a derivation is no sum of matrices."""
        return ()

    def sheet(self) -> Sheet:
        """A row for each term, and the number; bytes are told as people say them, too."""
        units = str(self.conventions.get("units", "iec"))
        number = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.6g}"
        if _is_of_bytes(self.path):
            number = bytes_in_words(self.value, units)
        name = "sum" if self.how == "sum" else self.path
        told = [self.formula] if self.formula and name != "sum" else []
        numbers = [
            *((each.path, each.path or each.what, each.value) for each in self.terms),
            (self.path, name, self.value),
        ]
        adds = self.how in ("sum", "difference", "least", "most") and _is_of_bytes(self.path)
        rounded = [short_bytes(value, units) if adds or _is_of_bytes(path) else "" for path, _, value in numbers]
        rows: list[list[Cell]] = [
            [what, _cell(value), *([said] if any(rounded) else [])]
            for (_, what, value), said in zip(numbers, rounded, strict=True)
        ]
        sheet = Sheet(
            title=f"{self.path}: {number}",
            subtitle=self.heading,
            columns=[
                Column("what", numeric=False),
                Column("value"),
                *([Column("rounded", spare=1)] if any(rounded) else []),
            ],
            rows=rows,
            quiet=self.value,
            notes=[
                *told,
                *([self.note] if self.note else []),
                *(f"{each.path}: {each.what}" for each in self.terms if each.path and each.what),
            ],
            legend=self.legend,
        )
        return self.under_its_name(sheet)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """The number itself follows from its terms again, which are called by their places."""
        if steps == ("value",):
            yield Itself(self)
        yield from super().origins(steps)


def _is_of_bytes(path: str) -> bool:
    """Return whether the number at this path is one of bytes, by its key or the one above it."""
    return any(key.endswith("bytes") for key in path.split(".")[-2:])


def _cell(value: Number) -> Cell:
    """The whole part of a number in full, as far as it is not told by an exponent: 24,414.06 of 24414.0625."""
    if isinstance(value, int):
        return value
    whole = len(str(int(abs(value)))) if abs(value) < IN_DIGITS else 0
    return Rounded(value, max(4, whole + (2 if whole > 3 and value != int(value) else 0)))


class Itself(NamedTuple):
    """The number that was explained, with its terms called by their places in the explanation."""

    answer: Derivation

    def opened(self, prefix: str, further: tuple[str, ...]) -> Derivation:
        """Open the number as its answer explains it. Raises UsageError, as nothing lies behind it."""
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        above = prefix.removesuffix("value")
        terms = tuple(
            each._replace(path=f"{above}terms.{place}.value", what=each.path or each.what)
            for place, each in enumerate(self.answer.terms)
        )
        note = self.answer.note or f"as {self.answer.path} follows from its terms"
        return replace(self.answer, path=prefix, terms=terms, note=note)
