"""Where the numbers of an explanation come from: the sizes of its matrices; or its own terms."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from tfcalc.core.notation import write
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.opening import Constant, Opener, Stated, Way, given, ratio, total

if TYPE_CHECKING:
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.paths import Step


class OfExplanation(Opener):
    """The whole is the sum of its lines, a line the product of its factors."""

    def __init__(self, answer: Explanation) -> None:
        self.answer = answer
        self.heading = f"{answer.path} of {answer.heading}"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of the sum, of a line, or of a factor."""
        unit, lines = self.answer.unit, self.answer.lines
        match steps:
            case (key,) if key == f"total_{unit}":
                return total(*(f"items.{place}.{unit}" for place in range(len(lines))))
            case ("items", int(place), "copies"):
                return Stated("formula", "how many there are of it", _form(lines[place].symbols.copies[0]))
            case ("items", int(place), "factors", int(factor)):
                name = ", ".join(lines[place].names)
                return Stated("formula", f"a factor of {name}", _form(lines[place].symbols.each[factor]))
            case ("items", int(place), key) if key == unit:
                return self._line(place)
        return None

    def _line(self, place: int) -> Way:
        line = self.answer.lines[place]
        copies, together = line.numbers.copies
        assert isinstance(together, int)
        each = f"items.{place}"
        if line.value != copies * together * prod(line.numbers.each):
            return total(Constant(line.value, f"{', '.join(line.names)}: {write(line.formula)}"))
        alike = (Constant(together, "tensors that are alike"),) if together != 1 else ()
        return ratio(f"{each}.copies", *alike, *(f"{each}.factors.{at}" for at in range(len(line.numbers.each))))


def _form(symbols: object) -> str:
    return write(symbols) if isinstance(symbols, Polynomial) else str(symbols)


class OfDerivation(Opener):
    """The number follows from its terms; each of these is a number of the answer that was explained."""

    def __init__(self, answer: Derivation) -> None:
        self.answer = answer
        self.heading = answer.heading

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of the number itself, or of a term."""
        match steps:
            case ("value",):
                return _Itself(self.answer)
            case ("terms", int(place), "value"):
                term = self.answer.terms[place]
                return given(f"the number at {term.path}, which explain opens" if term.path else term.what)
        return None


class _Itself:
    """The number that was explained, with its terms called by their places in the explanation."""

    def __init__(self, answer: Derivation) -> None:
        self.answer = answer

    def opened(self, prefix: str, further: tuple[str, ...]) -> Derivation:
        """The same. Raises UsageError, as nothing lies behind it."""
        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        above = prefix.removesuffix("value")
        terms = tuple(
            each._replace(path=f"{above}terms.{place}.value", what=each.path or each.what)
            for place, each in enumerate(self.answer.terms)
        )
        note = self.answer.note or f"as {self.answer.path} follows from its terms"
        return replace(self.answer, path=prefix, terms=terms, note=note)
