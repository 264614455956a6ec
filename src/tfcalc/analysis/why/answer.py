"""The answer of ``why``: the conventions that give a number, or that none does, and where its numbers come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from tfcalc.analysis.why.given import CUT_DOWN, SIZE
from tfcalc.analysis.why.log_lines import SHARE
from tfcalc.analysis.why.search import Taken, written
from tfcalc.report.declared import (
    Answer,
    Key,
    Keyed,
    When,
    boolean,
    choice,
    either,
    integer,
    number,
    records,
    shared,
    text,
    texts,
)
from tfcalc.report.opening import Constant, Rule, found, total
from tfcalc.report.sheet import Cell, Column, Sheet, of

if TYPE_CHECKING:
    from tfcalc.analysis.why.given import WrittenNumber
    from tfcalc.analysis.why.search import Combination, Match
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

AS_COUNTED = "as tfcalc counts"
SHOWN = 5
LEAST = 5e-5
"""Fraction below which a difference is printed as 0 %."""
AT_ONCE = 2
"""Causes that a title has of one number."""
OTHERS = 3
"""Causes that are named beside the first, where they give the same number."""
ASSUMED = (
    "parameters as tfcalc counts: unique trainable tensors, a tied matrix once, buffers apart",
    "FLOPs as tfcalc counts: a multiply-add is 2, matrix products only, masked pairs counted",
    "bytes as tfcalc counts: the checkpoint's own number format; a cache in 16 bits",
    "the number is read at its own precision; the fewer its figures, the simpler the combinations that are tried",
)
UNITS = {
    "params": "parameters",
    "flops": "FLOPs",
    "bytes": "bytes",
    "tokens": "tokens",
    "requests": "requests at once",
    "percent": "per cent",
    SIZE: "as a size of the model",
}
OF_LOG = When(lambda reason: reason.said, form="")


@dataclass(frozen=True, kw_only=True)
class Reason(Keyed):
    """One way to get the number.

    Attributes:
        value: the exact number that it gives.
        unit: ``params``, ``flops``, ``bytes`` or ``size``.
        cause: what was done, in words.
        steps: the names of the departures, "" of none.
        arithmetic: how the value comes about.
        command: what prints it, or what the arithmetic starts from.
        distance: how far it is from the number as given, as a fraction of it.
        reading: how the number as given was read: exactly, rounded, rounded down.
        changes: what the value is the sum of: the number that steps start from, and what each adds; each in words.
        shown: the value in the unit that was written.
        given: the number as it was given.
        said: the part of a log line that has it.
        others: causes that give the same value and are about as simple.
    """

    definition: ClassVar[tuple[str, str]] = ("reason", "one way to get a number")

    value: int | float
    exact_value = either(
        ("integer", "number"),
        "the number that is behind it, in full; a whole number unless something was divided or multiplied by a "
        "fraction",
        lambda reason: reason.value,
    )
    unit: Key[str] = choice(
        tuple(UNITS),
        "what it counts: parameters, FLOPs or bytes; a size of the model, which counts nothing; of a log line also "
        "tokens, requests, or per cent",
        typed=False,
    )
    cause: Key[str] = text("what was done, in words")
    steps: Key[Sequence[str]] = texts("ids of the departures from how tfcalc counts; empty where there are none")
    arithmetic: Key[str] = text("how the value comes about")
    command: Key[str] = text("what prints the number that the arithmetic starts from, or the value")
    distance: Key[float] = number("how far it is from the number as given, as a fraction of that")
    reading: str
    read_ = text(
        "how the number was read: exactly, rounded, or rounded down; empty in nearest", lambda reason: reason.reading
    )
    changes: tuple[tuple[int | float, str], ...] = ()
    shown: int | float = 0
    given: int | float = 0
    others: tuple[str, ...] = ()
    said: str = ""
    logged = text("the part of a log line that has the number", lambda reason: reason.said, when=OF_LOG)
    or_ = texts("other causes that give the same number and are about as simple", lambda reason: reason.others)

    def of_log(self, cause: str, said: str) -> Reason:
        """Return it as the cause of a number in a log line."""
        return replace(self, cause=cause, said=said)


def reason(given: WrittenNumber, combination: Combination, reading: str) -> Reason:
    """A combination in words."""
    start, taken = combination.start, written(combination)
    first = in_full(start.state.value)
    made_of = start.composed or (start.what if " x " in start.what else "")
    as_sum = f"{made_of} = {first}" if made_of else first
    changes = [step.arithmetic for step in taken if step.arithmetic]
    arithmetic = f"{_chain(first, changes)} = {in_full(combination.value)}" if changes else as_sum
    flags = [step.flags for step in taken if step.flags.startswith("--")]
    return Reason(
        value=exact(combination.value),
        unit=start.unit,
        cause=_cause(combination),
        steps=tuple([start.name] * bool(start.words) + [step.name for step in taken]),
        arithmetic=arithmetic,
        command=" ".join([*start.command.split(), *dict.fromkeys(flags)]),
        distance=float((combination.shown - given.value) / given.value),
        reading=reading,
        changes=tuple(_changes(combination)),
        shown=exact(combination.shown),
        given=exact(given.value),
    )


def _changes(combination: Combination) -> Iterator[tuple[int | float, str]]:
    """The number that steps start from, and by how much each of them changes it."""
    start = combination.start
    before = start.state.value
    yield exact(before), f"{start.what}: {start.command}"
    for one in combination.taken:
        if not isinstance(one, Taken):
            step, after = one
            yield exact(after.value - before), step.words
            before = after.value


def _cause(combination: Combination) -> str:
    causes = [each for each in (combination.start.words, *(step.words for step in written(combination))) if each]
    return "; ".join(causes) or AS_COUNTED


def matched(given: WrittenNumber, match: Match) -> Reason:
    """A match in words, with what else gives the same number."""
    one = reason(given, match.combination, match.reading.words)
    others = dict.fromkeys(_cause(other) for other in match.others)
    return replace(one, others=tuple(other for other in others if other != one.cause)[:OTHERS])


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


def in_full(value: Fraction) -> str:
    """``124,439,808``."""
    return f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):,.2f}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Why(Answer):
    """The answer of :func:`~tfcalc.why`.

    Attributes:
        given: the number, as it was written.
        heading: the model.
        reasons: what gives the number, the simplest and nearest first; empty where nothing does.
        nearest: then the numbers of simple conventions that are nearest to it.
        notes: what is known of this number of this model.
        model: the model, as in JSON.
        of: the quantities that the number may be of, or that were tried: params, flops, memory, cache.
        logged_by: the program whose log line was given; empty of a number.
        ways: how many values conventions give that are written so.
        told: what is said of a log line that has no number to compare; empty of others.
    """

    command, about = "why", "Which conventions give a number."

    heading: str = ""
    of: tuple[str, ...] = ()
    logged_by: str = ""
    told: str = ""
    model: Key[dict[str, object]] = shared("model")
    given: Key[str] = text("the number as it was written")
    found = boolean(
        "whether a convention gives it; of a log whether all that is known of it agrees",
        lambda why: not why.nearest and (bool(why.reasons or why.told)) if why.logged_by else bool(why.reasons),
    )
    ways: Key[int] = integer("how many values conventions give that are written so; the first of them are the reasons")
    reasons: Key[tuple[Reason, ...]] = records(Reason, "what gives it, the simplest and nearest first")
    nearest: Key[tuple[Reason, ...]] = records(
        Reason, "where nothing gives it, the nearest numbers of simple conventions"
    )
    notes: Key[Sequence[str]] = texts("what is known of this number")

    @property
    def answer(self) -> int | float | None:
        """The exact number behind the one that was given; None where no convention gives it."""
        return self.reasons[0].value if self.reasons else None

    def sheet(self) -> Sheet:
        """A row per way to get the number, or per number that is near; of a log line a row per number in it."""
        if self.logged_by:
            return self._of_log()
        rows = list(self._rows("reasons" if self.reasons else "nearest"))
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
            notes=[*self.notes, *self._as_cut(), *self._the_same(), *self._in_how_many_ways(), *self._commands()],
            assumptions=ASSUMED,
            see_also=("--of params|flops|memory|cache", "--json"),
        )

    def _of_log(self) -> Sheet:
        logged = [one.said for one in (*self.reasons, *self.nearest)]
        rows = (*self._rows("reasons"), *self._rows("nearest"))
        return Sheet(
            title=self._of_log_title(),
            subtitle=self.heading,
            columns=[
                Column("logged", numeric=False, folds=True),
                Column("tfcalc"),
                Column("off"),
                Column("what was counted", numeric=False, folds=True),
                Column("arithmetic", numeric=False, folds=True, spare=1),
            ],
            rows=[[said, *row] for said, row in zip(logged, rows, strict=True)],
            quiet=self.answer if self.answer is not None else "none",
            notes=[*self.notes, *self._commands()],
            see_also=("--json",),
        )

    def _of_log_title(self) -> str:
        """Words of the log and their first cause; before all else what does not agree with them."""
        if self.reasons and self.reasons[0].steps == (SHARE,):
            return f"{self.given}: {self.reasons[0].cause}"
        if self.nearest:
            return f"{self.logged_by} logs {_excerpt(self.nearest[0].said)}, which is not {_near(self.nearest[0])}"
        if not self.reasons:
            unknown = "" if self.notes else "nothing of this model to compare it with"
            known = self.told or unknown
            return f"{self.logged_by} logs {_excerpt(self.given)}" + (f": {known}" if known else "")
        first, *others = self.reasons
        causes = [first.cause, *(one.cause for one in others if one.said == first.said and one.unit == first.unit)]
        said = f"{self.logged_by} logs {_excerpt(first.said)}"
        if len(causes) == 1:
            return f"{said}: {first.cause}"
        more = f" ({len(causes)} are below)" if len(causes) > AT_ONCE else ""
        return f"{said}, which may be: {'; or '.join(causes[:AT_ONCE])}{more}"

    def _title(self) -> str:
        if self.reasons:
            first = self.reasons[0]
            if first.unit == SIZE:
                return f"{self.given} is a size of the model: {first.cause}"
            value = f"{in_full(Fraction(first.value))} {UNITS[first.unit]}"
            return f"{self.given} {'is' if self._is_sure else 'may be'} {value}: {first.cause}"
        if not self.nearest:
            return f"no convention gives {self.given}"
        return f"no convention gives {self.given}; nearest: {_near(self.nearest[0])}"

    def _rows(self, key: str) -> Iterator[list[Cell]]:
        for place, one in enumerate(getattr(self, key)):
            value: Cell = one.value if isinstance(one.value, int) else _value(one)
            off = _off(one) if key == "nearest" else percent(one.distance)
            yield [of(value, key, place, Reason.exact_value), off, one.cause, one.arithmetic]

    def _the_same(self) -> list[str]:
        """Note what else gives the first number."""
        first = self.reasons[0] if self.reasons else None
        if first is None or not first.others:
            return []
        return [f"{in_full(Fraction(first.value))} is also: {'; or '.join(first.others)}"]

    def _in_how_many_ways(self) -> list[str]:
        """Tell that the number may be several values, where the first is not what tfcalc itself counts."""
        if self._is_one:
            return []
        few = "one is" if len(self.reasons) == 1 else f"{len(self.reasons)} are"
        shown = f", of which {few} shown" if self.ways > len(self.reasons) else ""
        return [f"{self.ways} values are written as {self.given}{shown}; more digits distinguish them"]

    @property
    def _is_one(self) -> bool:
        return self.ways < 2 or not self.reasons[0].steps

    @property
    def _is_sure(self) -> bool:
        """True if it is the only value, rounded as usual, of what the number says that it is of."""
        first = self.reasons[0]
        guessed = first.unit == "bytes" and self.given.replace(",", "").isdigit()
        return self._is_one and (not first.steps or not (first.reading == CUT_DOWN or guessed))

    def _as_cut(self) -> list[str]:
        """Note that the first value is written so only where it is cut and not rounded."""
        first = self.reasons[0] if self.reasons else None
        if first is None or self._is_sure or first.reading != CUT_DOWN:
            return []
        return [f"that is written as {self.given} only where it is cut, not rounded"]

    def _commands(self) -> list[str]:
        first = (self.reasons or self.nearest)[:1]
        return [f"Start from: {one.command}" for one in first if one.command]

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """A reason's number is the one that its command prints, changed by one convention after the other."""
        match steps:
            case ("reasons" | "nearest" as kind, int(place), "exact_value"):
                yield total(*(Constant(number, words) for number, words in self._reason(kind, place).changes))
            case ("reasons" | "nearest" as kind, int(place), "distance"):
                reason = self._reason(kind, place)
                unit = "the same in the unit that was written"
                shown = ".exact_value" if reason.shown == reason.value else Constant(reason.shown, unit)
                yield Rule("relative", (shown,), (Constant(reason.given, f"as written: {self.given}"),))
            case ("ways",):
                yield found(f"values that conventions give and that are written as {self.given}")

    def _reason(self, kind: str, place: int) -> Reason:
        return (self.reasons if kind == "reasons" else self.nearest)[place]


def _near(one: Reason) -> str:
    """``4,096 parameters (one norm alone, +6.4 %)``."""
    return f"{_value(one)} {UNITS[one.unit]} ({one.cause}, {_off(one)})"


def _off(one: Reason) -> str:
    """Return by how much a number that is near is another one: in full where the percentage would be 0."""
    difference = one.shown - one.given
    return (
        f"{difference:+,}"
        if difference and isinstance(difference, int) and abs(one.distance) < LEAST
        else percent(one.distance)
    )


def _value(one: Reason) -> str:
    """Its number; a percentage with four digits."""
    return f"{one.value:.4g}" if one.unit == "percent" else in_full(Fraction(one.value))


def _excerpt(text: str) -> str:
    """Words of a log, set apart from what is said of them."""
    return f'"{text}"'


def percent(distance: float) -> str:
    """``+6.4 %``; 0 where it is less than a thousandth of that."""
    return "0 %" if abs(distance) < LEAST else f"{distance:+.2%}".replace("%", " %")


def reasons(given: WrittenNumber, found: list[Match]) -> tuple[Reason, ...]:
    """The first few, in words."""
    return tuple(matched(given, one) for one in found[:SHOWN])
