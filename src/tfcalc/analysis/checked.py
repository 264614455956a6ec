"""The answer of ``check``: whether a formula is right, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tfcalc.analysis.causes import NEVER, SCORES, TWICE, Cause, Part
from tfcalc.core.notation import bracketed, write
from tfcalc.core.polynomial import Polynomial
from tfcalc.expressions import Ratio
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.opening import OfTable
from tfcalc.report.sheet import Cell, Column, Sheet

MOST_OTHERS = 3
"""Other parts that would explain a difference as well, of those that are named."""

OFTEN = {Fraction(1, 2): "half of", Fraction(1, 3): "a third of", Fraction(1, 4): "a quarter of"}
OFTEN |= {Fraction(2, 3): "two thirds of"}
OFTEN |= {Fraction(3): "three times", Fraction(4): "four times", Fraction(2): "twice"}

REASONS = {
    ("flops", Fraction(1, 2)): "a multiply-add is 2 FLOPs",
    ("flops", Fraction(2)): "a multiply-add is 2 FLOPs, of which both are counted already",
    ("flops", Fraction(1, 3)): "backward costs twice as much as forward",
    ("flops", Fraction(2, 3)): "backward costs twice as much as forward, and was counted once",
    ("flops", Fraction(3)): "that is forward and backward",
    ("memory", Fraction(1, 4)): "a number has 4 bytes",
}
"""Why a whole formula may be off by a number."""


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of :func:`~tfcalc.check`: a formula compared with the right one.

    Attributes:
        text: the formula as it was typed.
        yours: the same multiplied out, over a whole number.
        right: the right one; where a number was given, its value.
        closed: where a number was given, the right formula.
        sizes: the sizes at which it has that value.
        causes: which parts of the model the difference is.
        share: by what the right formula would have to be multiplied, where that is one product.
        instead: another question that the formula answers.
        notation: in whose letters the formula would be right.
        letters: how each letter is written.
    """

    target: str
    path: str
    of: str
    text: str
    yours: Ratio
    right: Polynomial
    closed: Polynomial | None
    sizes: Mapping[str, int]
    order: bool
    causes: tuple[Cause, ...]
    share: Ratio | None
    instead: str
    notation: str
    letters: Mapping[str, str]
    legend: Mapping[str, str]
    model: Mapping[str, object]
    conventions: Mapping[str, object]
    notes: tuple[str, ...]

    @property
    def correct(self) -> bool:
        """Whether the two are the same polynomial."""
        return not self.difference.top.terms

    @property
    def difference(self) -> Ratio:
        """The formula less the right one."""
        return self.yours - Ratio(self.right)

    @property
    def missing(self) -> Ratio:
        """The terms by which it is too small."""
        return _signed(self.difference, -1)

    @property
    def extra(self) -> Ratio:
        """The terms by which it is too large."""
        return _signed(self.difference, 1)

    def verdict(self, letters: Mapping[str, str] | None = None) -> str:
        """One line: yes, or by how much it differs and what that is."""
        letters = self.letters if letters is None else letters
        right = self._right(letters)
        if self.correct:
            return f"yes: {right}"
        if self.notation:
            return f"no: {right} is right; in the letters of --notation {self.notation} yours is the same"
        more, less = ratio_text(self.missing, letters), ratio_text(self.extra, letters)
        if not self.extra.top.terms:
            found = f"no: {right} is {more} more"
        elif not self.missing.top.terms:
            found = f"no: {right} is {less} less"
        else:
            found = f"no: {right} is right; {more} is missing, {less} is too much"
        return "; ".join([found, *self.reasons(letters)])

    def _right(self, letters: Mapping[str, str]) -> str:
        """``4h² + 4h``; of a number ``1,050,624 (4h² + 4h with h = 512)``."""
        right = self._order(ratio_text(Ratio(self.right), letters))
        if self.closed is None:
            return right
        at = ", ".join(f"{letters.get(letter, letter)} = {size:,}" for letter, size in self.sizes.items())
        return f"{right} ({write(self.closed, letters=letters)} with {at})"

    def _order(self, text: str) -> str:
        return f"O({text})" if self.order else text

    def reasons(self, letters: Mapping[str, str]) -> list[str]:
        """Why it differs, in words, as far as that is known."""
        found = [_in_words(cause, self.of, letters) for cause in self.causes]
        if self.share is not None:
            found.append(f"it is the right one times {ratio_text(self.share, letters)}")
        what = "formula" if self.closed is None else "number"
        return [*found, f"it is the {what} {self.instead}"] if self.instead else found

    def sheet(self) -> Sheet:
        """The verdict; below it both formulas and what differs."""
        yours = self._order(ratio_text(self.yours, self.letters))
        rows: list[list[Cell]] = [["yours", yours], ["right", self._right(self.letters)]]
        for name, part in (("missing", self.missing), ("too much", self.extra)):
            if part.top.terms:
                rows.append([name, ratio_text(part, self.letters)])
        verdict = self.verdict()
        meanings = ", ".join(f"{self.letters.get(letter, letter)} {what}" for letter, what in self.legend.items())
        return Sheet(
            title=verdict,
            columns=[Column("what", numeric=False), Column("formula", numeric=False, folds=True)],
            rows=rows,
            quiet=verdict,
            notes=[*self.notes, *([meanings] if meanings else [])],
        )

    def opener(self) -> OfTable:
        """Where its numbers come from."""
        return OfTable(f"{self.text}: {self.path}")

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``, with the letters of lbhn."""
        own: dict[str, str] = {}
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "check",
            "target": self.target,
            "path": self.path,
            "of": self.of,
            "model": dict(self.model),
            "conventions": dict(self.conventions),
            "correct": self.correct,
            "verdict": self.verdict(own),
            "formula": self.text,
            "yours": ratio_text(self.yours, own),
            "right": write(self.right),
            "difference": ratio_text(self.difference, own),
            "missing": _terms(self.missing),
            "extra": _terms(self.extra),
            "causes": [
                {
                    "parts": [part.name for part in cause.parts],
                    "formula": write(cause.number),
                    "counted": cause.times.text,
                    "in_words": _in_words(cause, self.of, own),
                    "or": [[part.name for part in other] for other in cause.others],
                }
                for cause in self.causes
            ],
            "proportion": None if self.share is None else ratio_text(self.share, own),
            "instead": self.instead,
            "notation": self.notation,
            "legend": dict(self.legend),
        }

    def __str__(self) -> str:
        return self.verdict()


def ratio_text(ratio: Ratio, letters: Mapping[str, str]) -> str:
    """``4h²``, ``3h/2``, ``(2h + 1)/3``, ``1,050,624``."""
    text = _grouped(ratio.top, letters)
    return text if ratio.bottom == 1 else f"{bracketed(text)}/{ratio.bottom}"


def _grouped(number: Polynomial, letters: Mapping[str, str]) -> str:
    """A formula; a number alone in groups of three digits."""
    return write(number, letters=letters) if number.free_symbols else f"{number.terms.get((), 0):,}"


def _signed(number: Ratio, sign: int) -> Ratio:
    terms = number.top.terms.items()
    return Ratio.of(Polynomial({powers: factor * sign for powers, factor in terms if factor * sign > 0}), number.bottom)


def _terms(number: Ratio) -> list[str]:
    return [
        ratio_text(Ratio.of(Polynomial({powers: factor}), number.bottom), {})
        for powers, factor in number.top.terms.items()
    ]


def _in_words(cause: Cause, of: str, letters: Mapping[str, str]) -> str:
    """``h² is W_O``; ``W_Q, W_K, W_V: counted a times``."""
    named = _named(cause.parts)
    for other in cause.others[:MOST_OTHERS]:
        named += f", or {_named(other)}"
    times, size = cause.times, _grouped(cause.number, letters)
    whole = cause.is_all
    if times == NEVER:
        return "everything is missing" if whole else f"{size} is {named}"
    if times.letter:
        letter = letters.get(times.letter, times.letter)
        if times.by:
            return f"{named}: counted with {letter} in the place of {letters.get(times.by, times.by)}"
        if times.divided:
            return f"the factor {letter} is missing" + ("" if whole else f" from {named}")
        said = f"{'all of it' if whole else named}: counted {letter} times"
        if times.letter != "a" or whole:
            return said
        shared = "one matrix is for all" if cause.parts[0].name.startswith("W_") else "that is the cost of all"
        return f"{said}, but {shared} {letter} heads"
    if whole:
        reason = REASONS.get((of, times.number), "")
        return f"it is {OFTEN[times.number]} the right one" + (f": {reason}" if reason else "")
    if times == TWICE:
        return f"{size} is {named}, counted twice"
    if times.number == Fraction(1, 2) and all(name in named for name in SCORES):
        return f"of {named} half was counted, as for a causal mask"
    were, its = ("were", "their") if len(cause.parts) > 1 or named.endswith("s") else ("was", "its")
    return f"{named} {were} counted as {OFTEN[times.number]} {its} {size}"


def _named(parts: tuple[Part, ...]) -> str:
    names = [part.name for part in parts]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
