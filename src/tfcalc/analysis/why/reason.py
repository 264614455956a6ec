"""The answer of ``why``: the conventions that give a number, or that none does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.analysis.why.chance import RARELY, SELDOM
from tfcalc.analysis.why.search import written
from tfcalc.analysis.why.step import Taken
from tfcalc.report import SCHEMA_VERSION
from tfcalc.report.sheet import Cell, Column, Sheet

if TYPE_CHECKING:
    from tfcalc.analysis.why.given import Given
    from tfcalc.analysis.why.opened import OfWhy
    from tfcalc.analysis.why.search import Match
    from tfcalc.analysis.why.step import Candidate

AS_COUNTED = "as tfcalc counts"
SHOWN = 5
OTHERS = 3
"""Causes that are named beside the first, where they give the same number."""
NEARLY, THIRD = 0.9, 0.34
ASSUMED = (
    "parameters as tfcalc counts: unique trainable tensors, a tied matrix once, buffers apart",
    "FLOPs as tfcalc counts: a multiply-add is 2, matrix products only, masked pairs counted",
    "bytes as tfcalc counts: the checkpoint's own number format; a cache in 16 bits",
    "the number is read at its own precision; the fewer its figures, the simpler the combinations that are tried",
)
UNITS = {"params": "parameters", "flops": "FLOPs", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One way to get the number.

    Attributes:
        value: the exact number that it gives.
        unit: ``params``, ``flops`` or ``bytes``.
        cause: what was done, in words.
        steps: the names of the departures, "" of none.
        arithmetic: how the value comes about.
        command: what prints it, or what the arithmetic starts from.
        distance: how far it is from the number as given, as a fraction of it.
        reading: how the number as given was read: exactly, rounded, rounded down.
        changes: what the value is the sum of: the number that steps start from, and what each adds; each in words.
        shown: the value in the unit that was written.
        given: the number as it was given.
        chance: the share of numbers with as many figures that something as simple gives; None where it was not found.
        others: causes that give the same value and are about as simple.
    """

    value: int | float
    unit: str
    cause: str
    steps: tuple[str, ...]
    arithmetic: str
    command: str
    distance: float
    reading: str
    changes: tuple[tuple[int | float, str], ...] = ()
    shown: int | float = 0
    given: int | float = 0
    chance: float | None = None
    others: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "exact_value": self.value,
            "unit": self.unit,
            "cause": self.cause,
            "steps": list(self.steps),
            "arithmetic": self.arithmetic,
            "command": self.command,
            "distance": self.distance,
            "read": self.reading,
            "chance": None if self.chance is None else float(f"{self.chance:.2g}"),
            "or": list(self.others),
        }


def reason(given: Given, candidate: Candidate, reading: str) -> Reason:
    """A candidate in words."""
    root, taken = candidate.root, written(candidate)
    start = number(root.state.value)
    start = f"{root.what} = {start}" if " x " in root.what else start
    changes = [step.arithmetic for step in taken if step.arithmetic]
    arithmetic = f"{_chain(number(root.state.value), changes)} = {number(candidate.value)}" if changes else start
    flags = [step.flags for step in taken if step.flags.startswith("--")]
    return Reason(
        value=exact(candidate.value),
        unit=root.unit,
        cause=_cause(candidate),
        steps=tuple([root.name] * bool(root.words) + [step.name for step in taken]),
        arithmetic=arithmetic,
        command=" ".join([*root.command.split(), *dict.fromkeys(flags)]),
        distance=float((candidate.shown - given.value) / given.value),
        reading=reading,
        changes=tuple(_changes(candidate)),
        shown=exact(candidate.shown),
        given=exact(given.value),
    )


def _changes(candidate: Candidate) -> Iterator[tuple[int | float, str]]:
    """The number that steps start from, and by how much each of them changes it."""
    root = candidate.root
    before = root.state.value
    yield exact(before), f"{root.what}: {root.command}"
    for one in candidate.taken:
        if not isinstance(one, Taken):
            step, after = one
            yield exact(after.value - before), step.words
            before = after.value


def _cause(candidate: Candidate) -> str:
    causes = [each for each in (candidate.root.words, *(step.words for step in written(candidate))) if each]
    return "; ".join(causes) or AS_COUNTED


def found(given: Given, match: Match) -> Reason:
    """A match in words, with what else gives the same number."""
    one = reason(given, match.candidate, match.reading.words)
    others = dict.fromkeys(_cause(other) for other in match.others)
    return replace(one, chance=match.chance, others=tuple(other for other in others if other != one.cause)[:OTHERS])


def _chain(start: str, changes: list[str]) -> str:
    """``(13 − 2) ÷ 2``: what multiplies a sum has it in brackets."""
    written = start
    for change in changes:
        encloses = change[0] in "×÷" and any(sign in written for sign in "+−")
        written = f"({written}) {change}" if encloses else f"{written} {change}"
    return written


def exact(value: Fraction) -> int | float:
    """The whole number that it is; where it is none, the nearest float."""
    return value.numerator if value.denominator == 1 else float(value)


def number(value: Fraction) -> str:
    """``124,439,808``."""
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):,.2f}"


@dataclass(frozen=True, slots=True)
class Why:
    """The answer of :func:`~tfcalc.why`.

    Attributes:
        given: the number, as it was written.
        heading: the model.
        reasons: what gives the number, the simplest and nearest first; empty where nothing does.
        nearest: then the numbers of simple conventions that are nearest to it.
        notes: what is known of this number of this model.
        model: the model, as in JSON.
        of: the quantities that the number may be of, or that were tried: params, flops, memory, cache.
    """

    given: str
    heading: str
    reasons: tuple[Reason, ...]
    nearest: tuple[Reason, ...]
    notes: tuple[str, ...]
    model: dict[str, object]
    of: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether a convention gives the number."""
        return bool(self.reasons)

    @property
    def answer(self) -> int | float | None:
        """The exact number behind the one that was given; None where no convention gives it."""
        return self.reasons[0].value if self.reasons else None

    def sheet(self) -> Sheet:
        """A row per way to get the number, or per number that is near."""
        rows = [self._row(one) for one in self.reasons or self.nearest]
        return Sheet(
            title=self._title(),
            subtitle=self.heading,
            columns=[
                Column("exactly"),
                Column("off", spare=2),
                Column("what was counted", numeric=False, folds=True),
                Column("arithmetic", numeric=False, folds=True, spare=1),
            ],
            rows=rows,
            quiet=self.answer if self.answer is not None else "none",
            notes=[*self.notes, *self._the_same(), *self._by_chance(), *self._commands()],
            assumptions=ASSUMED,
            see_also=("--of params|flops|memory|cache", "--json"),
        )

    def _title(self) -> str:
        if self.reasons:
            first = self.reasons[0]
            value = f"{number(Fraction(first.value))} {UNITS[first.unit]}"
            return f"{self.given} {_how_surely(first)} {value}: {first.cause}"
        if not self.nearest:
            return f"no convention gives {self.given}"
        near = self.nearest[0]
        close = f"{number(Fraction(near.value))} {UNITS[near.unit]} ({near.cause}, {percent(near.distance)})"
        return f"no convention gives {self.given}; nearest: {close}"

    def _row(self, one: Reason) -> list[Cell]:
        value: Cell = one.value if isinstance(one.value, int) else number(Fraction(one.value))
        return [value, percent(one.distance), one.cause, one.arithmetic]

    def _the_same(self) -> list[str]:
        """What else gives the first number."""
        first = self.reasons[0] if self.reasons else None
        if first is None or not first.others:
            return []
        return [f"{number(Fraction(first.value))} is also: {'; or '.join(first.others)}"]

    def _by_chance(self) -> list[str]:
        """How much the match says, where that is not much."""
        chance = self.reasons[0].chance if self.reasons else None
        if chance is None or chance < RARELY or not self.reasons[0].steps:
            return []
        share = "Nearly every number" if chance > NEARLY else f"{_one_in(chance)} numbers"
        return [f"{share} with as many figures would fit something as simple by chance; more figures tell more"]

    def _commands(self) -> list[str]:
        first = (self.reasons or self.nearest)[:1]
        return [f"Start from: {one.command}" for one in first]

    def opener(self) -> OfWhy:
        """Where its numbers come from."""
        from tfcalc.analysis.why.opened import OfWhy

        return OfWhy(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "why",
            "model": self.model,
            "given": self.given,
            "found": self.found,
            "reasons": [one.to_dict() for one in self.reasons],
            "nearest": [one.to_dict() for one in self.nearest],
            "notes": list(self.notes),
        }


def _how_surely(one: Reason) -> str:
    if one.chance is None or one.chance < RARELY or not one.steps:
        return "is"
    return "is probably" if one.chance < SELDOM else "may be"


def _one_in(chance: float) -> str:
    """``1 in 8``, or ``6 in 10``.

    >>> _one_in(0.12), _one_in(0.62)
    ('1 in 8', '6 in 10')
    """
    return f"1 in {1 / chance:.0f}" if chance <= THIRD else f"{10 * chance:.0f} in 10"


def percent(distance: float) -> str:
    """``+6.4 %``; 0 where it is less than a thousandth of that."""
    return "0 %" if abs(distance) < 5e-5 else f"{distance:+.2%}".replace("%", " %")


def reasons(given: Given, matched: list[Match]) -> tuple[Reason, ...]:
    """The first few, in words."""
    return tuple(found(given, one) for one in matched[:SHOWN])
