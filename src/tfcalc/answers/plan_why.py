"""Two layouts side by side; why one layout is not the best: what rules it out, or by how much it loses, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from tfcalc.answers.plan_case import PlanCase
from tfcalc.answers.plan_keys import (
    BY_CLOSED_FORM,
    COLUMNS,
    ESTIMATED,
    BandKeys,
    LayoutOfCase,
    ListedLayout,
    OneLayout,
    PlanAnswer,
    PlannedLayout,
    seconds_in_words,
)
from tfcalc.answers.plan_question import PlanQuestion
from tfcalc.core.number import divisors
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Record, When, boolean, integer, number, record, records, text, texts
from tfcalc.report.opening import found, total
from tfcalc.report.sheet import Cell, Column, InUnit, Rounded, Sheet
from tfcalc.search.axes import WrittenLayout
from tfcalc.search.gpus import SAID
from tfcalc.search.layouts import ALIKE, EvaluatedLayout
from tfcalc.timing.estimate import ErrorBand, band_of_pairs
from tfcalc.timing.step import Layouts
from tfcalc.units import short_bytes

SHOWN, DECIMALS = 0.0005, 4
"""Seconds of a part from which on it has a row; decimals of differences."""
MEMORY = {
    "states": "weights, gradients, optimizer",
    "saved": "saved for backward",
    "loss": "logits of the loss",
    "gathered": "gathered from other GPUs",
    "other": "temporary tensors",
}
"""Parts of the memory: those of the closed form, and what the peak of a step on the tape has more."""
MOST_CHANGES = 5
"""Changes that are told."""


class PartOfTwo(NamedTuple):
    """A part, in two layouts."""

    part: str
    first: float
    second: float


class SecondsOfTwo(Record):
    """A part of a step in two layouts."""

    part = text("what the seconds go to", lambda pair: pair.part)
    first_seconds = number("seconds in the first layout", lambda pair: pair.first, found(ESTIMATED))
    second_seconds = number("seconds in the second", lambda pair: pair.second, found(ESTIMATED))
    difference_seconds = number("what the second takes more", total(".second_seconds", less=".first_seconds"))


class BytesOfTwo(Record):
    """A part of the memory of the fullest GPU in two layouts."""

    part = text("what the bytes are for", lambda pair: pair.part)
    first_bytes = integer("bytes in the first layout", lambda pair: int(pair.first), BY_CLOSED_FORM)
    second_bytes = integer("bytes in the second", lambda pair: int(pair.second), BY_CLOSED_FORM)
    difference_bytes = integer("what the second takes more", total(".second_bytes", less=".first_bytes"))


class Two(NamedTuple):
    """Two layouts, part by part."""

    case: PlanCase
    first: EvaluatedLayout
    second: EvaluatedLayout

    @property
    def seconds(self) -> list[PartOfTwo]:
        """Parts of their steps."""
        parts = zip(self.case.parts(self.first)._asdict().items(), self.case.parts(self.second), strict=True)
        return [PartOfTwo(name.replace("_", " "), one, float(other)) for (name, one), other in parts]

    @property
    def bytes(self) -> list[PartOfTwo]:
        """Parts of their memory."""
        one, other = (self._of(each) for each in (self.first, self.second))
        return [PartOfTwo(name, one[name], other[name]) for name in MEMORY]

    def _of(self, one: EvaluatedLayout) -> dict[str, float]:
        parts = {name: float(size) for name, size in self.case.memory(one)._asdict().items()}
        return {**parts, "other": self.case.peak(one) - sum(parts.values()) + parts["other"]}

    def rows(self) -> Iterator[list[Cell]]:
        """Rows of a table: seconds, then bytes."""
        for pair in (*self.seconds, PartOfTwo("step", *(self.case.seconds(one) for one in (self.first, self.second)))):
            if max(pair.first, pair.second) >= SHOWN:
                by = round(pair.second - pair.first, DECIMALS) + 0.0  # no -0
                yield [
                    f"{pair.part} (s)",
                    Rounded(pair.first),
                    Rounded(pair.second),
                    Rounded(by),
                    self._because(pair.part),
                ]
        peaks = self.case.peak(self.first), self.case.peak(self.second)
        memory = [(MEMORY[pair.part], int(pair.first), int(pair.second)) for pair in self.bytes]
        there = (part for part in memory if any(part[1:]))
        for name, one, other in (*there, ("peak", *peaks)):
            sizes = (InUnit(size, "GiB") for size in (one, other, other - one))
            yield [f"{name} (GiB)", *sizes, ""]

    def _because(self, part: str) -> str:
        """Say what a part follows from, where a fraction says it."""
        if part == "bubble":
            return f"(p - 1)/vm: {_bubble(self.first.layouts)}, {_bubble(self.second.layouts)}"
        return ""

    def columns(self) -> list[Column]:
        """Columns of the table."""
        names = (PlannedLayout(one.layouts, None).words for one in (self.first, self.second))  # type: ignore[arg-type]  # words ask no answer
        return [Column("part", numeric=False), *map(Column, names), Column("by"), Column("", numeric=False, spare=1)]

    @property
    def relative(self) -> float:
        """Share of the first's step by which the second's is longer."""
        return float(self.second.seconds) / float(self.first.seconds) - 1

    def verdict(self, band: ErrorBand) -> str:
        """Say whether the difference is more than the model's own error."""
        by = abs(self.relative)
        pairs = f"half of {band.runs:,} pairs of published runs were within {100 * band.typical:.0f} %"
        if by <= ALIKE:
            return f"Equal, as far as this estimate can tell: less than {100 * ALIKE:.0f} % apart"
        if by <= band.typical:
            return f"Within the estimate's own error: {pairs}"
        most = f"nine of ten within {100 * band.most:.0f} %"
        if by <= band.most:
            return f"More than the estimate's typical error, and not beyond doubt: {pairs}, {most}"
        return f"Beyond the estimate's own error: {pairs}, {most}"


def _bubble(at: Layouts) -> str:
    return str(Fraction(int(at.pp) - 1, int(at.vpp) * int(at.batches)))


class LayoutsCompared(PlanAnswer):
    """Two layouts side by side: where the second is faster or slower, and what it takes more."""

    form = "--why"

    first = record(ListedLayout, "the first layout", lambda why: LayoutOfCase(why.case, why.two.first))
    second = record(ListedLayout, "the second layout", lambda why: LayoutOfCase(why.case, why.two.second))
    first_fits = boolean(
        "whether the first fits, tightly or with room to spare", lambda why: why.case.fits(why.two.first)
    )
    second_fits = boolean(
        "whether the second fits, tightly or with room to spare", lambda why: why.case.fits(why.two.second)
    )
    seconds = records(SecondsOfTwo, "where their seconds go", lambda why: why.two.seconds)
    first_seconds = number("a step of the first", lambda why: why.case.seconds(why.two.first), found(ESTIMATED))
    second_seconds = number("a step of the second", lambda why: why.case.seconds(why.two.second), found(ESTIMATED))
    difference_seconds = number("what a step of the second takes more", total("second_seconds", less="first_seconds"))
    relative = number(
        "that as a share of the first's step",
        lambda why: why.two.relative,
        found("the second's step over the first's, less 1"),
    )
    bytes = records(BytesOfTwo, "what their memory goes to", lambda why: why.two.bytes)
    band = record(BandKeys, "how far the ratio of two published runs was from its estimate", lambda why: why.pairs)
    verdict = text(
        "whether the difference is more than the estimate's own error", lambda why: why.two.verdict(why.pairs)
    )

    def __init__(self, case: PlanCase, first: WrittenLayout, second: WrittenLayout) -> None:
        super().__init__(case)
        self.two = Two(case, case.checked(first), case.checked(second))
        self.pairs = band_of_pairs()

    def sheet(self) -> Sheet:
        """Their parts side by side."""
        one, other = self.first.layout.words, self.second.layout.words
        by, share = self.difference_seconds, f"{abs(self.relative):.1%}".replace("%", " %")
        slower = f"{seconds_in_words(abs(by))} ({share}) {'slower' if by > 0 else 'faster'} than {one}"
        notes = [self.verdict]
        for listed, fits in ((self.first, self.first_fits), (self.second, self.second_fits)):
            if not fits:
                notes.append(f"{listed.layout.words}: {listed.source.memory_in_words}")
        return Sheet(
            title=f"{other} is {slower}" if by else f"{other} takes as long as {one}",
            subtitle=self.heading,
            columns=self.two.columns(),
            rows=list(self.two.rows()),
            quiet=Rounded(by),
            notes=notes,
            see_also=("--json",),
        )


class LayoutChange(NamedTuple):
    """A change of one axis with which a layout fits: axis, value, and the layout, which was evaluated."""

    axis: str
    value: int
    listed: LayoutOfCase


class ChangeKeys(Record):
    """A change of one axis with which the layout fits."""

    axis = text("the axis: tp, pp, cp, ep, micro_batch, zero, again (full checkpointing)", lambda change: change.axis)
    value = integer("its new value", lambda change: change.value, found("tried"))
    changed = record(ListedLayout, "the layout then", lambda change: change.listed)


IS_BEYOND = When(lambda why: not why.fits)
LOSES = When(lambda why: why.fits)


class CannotBe(PlanAnswer):
    """Why there is no such layout: what does not divide, and what would."""

    form = "--why-not, of a layout that cannot be"

    asked = text("the layout, as it was written", lambda why: why.written.text)
    reason = text("the rule that it breaks", lambda why: why.refused.message)
    nearest = text("what would do", lambda why: why.refused.hint)

    def __init__(self, case: PlanCase, asked: WrittenLayout, refused: InvalidModel) -> None:
        super().__init__(case)
        self.written, self.refused = asked, refused

    def sheet(self) -> Sheet:
        """The rule, in a line."""
        title = f"{self.asked} cannot be: {self.reason}; {self.nearest}"
        return Sheet(title=title, subtitle=self.heading, columns=[], rows=[], quiet=self.reason, see_also=("--json",))


class WhyNot(OneLayout):
    """Why a layout is not the best: it does not fit, and what would make it; or by how much it loses, and where."""

    form = "--why-not"

    asked = text("the layout, as it was written", lambda why: why.written.text)
    evaluated = record(ListedLayout, "the layout, with what it takes", lambda why: LayoutOfCase(why.case, why.one))
    beyond_bytes = integer(
        "bytes beyond the usable; below 0 where its errors or fragments may be too much",
        lambda why: why.beyond,
        BY_CLOSED_FORM,
        when=IS_BEYOND,
    )
    bytes = records(BytesOfTwo, "what its memory goes to, and that of the best", lambda why: why.two.bytes)
    changes = records(
        ChangeKeys, "changes of one axis with which it fits, the fastest first", lambda why: why.cures, when=IS_BEYOND
    )
    best = record(
        ListedLayout,
        "the fastest layout that fits; where none does, the one that takes least memory",
        lambda why: LayoutOfCase(why.case, why.case.best),
    )
    best_seconds = number("seconds of its step", lambda why: why.case.seconds(why.case.best), found(ESTIMATED))
    loses_seconds = number(
        "what the step takes more than the best one's", total("step_seconds", less="best_seconds"), when=LOSES
    )
    seconds = records(
        SecondsOfTwo, "where its seconds go, and those of the best", lambda why: why.two.seconds, when=LOSES
    )
    verdict = text(
        "whether that is more than the estimate's own error", lambda why: why.two.verdict(band_of_pairs()), when=LOSES
    )
    not_tried = texts("axes of which a search does not try this value", lambda why: why.untried)

    def __init__(self, case: PlanCase, asked: WrittenLayout) -> None:
        super().__init__(case)
        self.written, self.at = asked, case.layout(asked)
        self.one = case.by.evaluated(self.at)

    @property
    def seconds_of_step(self) -> float:
        """Seconds of its step."""
        return self.case.seconds(self.one)

    @property
    def two(self) -> Two:
        """The layout and the best."""
        return Two(self.case, self.one, self.case.best)

    @property
    def untried(self) -> list[str]:
        """Axes of which a search does not try this value."""
        return self.case.untried(self.at)

    @cached_property
    def cures(self) -> list[LayoutChange]:
        """Changes of one axis with which it fits, each of them tried."""
        return sorted(self._cures(), key=lambda change: change.listed.seconds)

    def _cures(self) -> Iterator[LayoutChange]:
        at, axes = self.at, self.written.axes
        doubled = {
            name: [getattr(at, name) << times for times in range(1, self.question.gpus.bit_length())]
            for name in ("tp", "pp", "cp", "ep")
        }
        steps: Mapping[str, Sequence[int]] = {
            "again": [1] * (not at.again),
            "zero": [one for one in (1, 2, 3) if one > at.zero],
            "micro_batch": divisors(at.micro_batch)[-2::-1],
            **doubled,
        }
        for name, values in steps.items():
            changed = (self._changed(axes._replace(**{name: (value,)})) for value in values)
            fitting = ((value, one) for value, one in zip(values, changed, strict=True) if one and self.case.fits(one))
            if first := next(fitting, None):
                yield LayoutChange(name, first[0], LayoutOfCase(self.case, first[1]))

    def _changed(self, axes: Any) -> EvaluatedLayout | None:
        at = self.case.layout(WrittenLayout(self.written.text, axes))
        return self.case.by.evaluated(at) if self.case.refusal(at) is None else None

    def sheet(self) -> Sheet:
        """Changes with which it fits; or its parts beside those of the best."""
        words = self.evaluated.layout.words
        notes = list(self._notes())
        if not self.fits:
            needed, usable = (short_bytes(size, "iec") for size in (self.case.peak(self.one), self.usable_bytes))
            largest = max(self.bytes, key=lambda pair: pair.first_bytes)
            part = f"{MEMORY[largest.part]} {short_bytes(largest.first_bytes, 'iec')}"
            title, quiet = (
                f"{words} {SAID[self.status].lower()}: it needs {needed}, usable {usable}: {part}",
                self.beyond_bytes,
            )
            return Sheet(
                title=title, subtitle=self.heading, columns=CHANGED, rows=self._rows(), quiet=quiet, notes=notes
            )
        if words == self.best.layout.words:
            title = f"{words} is the best: {seconds_in_words(self.best.step_seconds)} a step"
        elif self.loses_seconds <= 0:
            title = f"{words} is as fast as the best, {self.best.layout.words}"
        else:
            share = f"{self.evaluated.behind:.1%}".replace("%", " %")
            title = f"{words} loses {seconds_in_words(self.loses_seconds)} a step ({share}) to {self.best.layout.words}"
        return Sheet(
            title=title,
            subtitle=self.heading,
            columns=self.two.columns(),
            rows=list(self.two.rows()),
            quiet=Rounded(self.loses_seconds),
            notes=notes,
            see_also=("--json",),
        )

    def _rows(self) -> list[list[Cell]]:
        return [[CHANGED_TO[one.axis].format(one.value), *one.changed.cells()] for one in self.changes[:MOST_CHANGES]]

    def _notes(self) -> Iterator[str]:
        yield self.in_case.memory_in_words
        if self.untried:
            yield f"A search does not try it, for its {', '.join(self.untried)}"
        if self.fits:
            yield self.verdict
        elif not self.changes:
            yield "No change of one axis makes it fit"
        if not self.fits and self.case.fits(self.case.best):
            yield f"Best that fits: {self.best.layout.words}, {seconds_in_words(self.best.step_seconds)} a step"


CHANGED_TO = {
    "again": "--checkpointing full",
    "zero": "--zero {}",
    "micro_batch": "--micro-batch {}",
    "tp": "--tp {}",
    "pp": "--pp {}",
    "cp": "--cp {}",
    "ep": "--ep {}",
}
CHANGED = (Column("it fits with", numeric=False), *COLUMNS)


def why(question: PlanQuestion, first: WrittenLayout, second: WrittenLayout) -> LayoutsCompared:
    """Compare two layouts, part by part.

    Args:
        question: the model, the machine and the batch.
        first: a layout.
        second: another.

    Returns:
        Their seconds and bytes side by side, and whether the difference is more than the estimate's own error.

    Raises:
        UsageError: one of them cannot be.
    """
    return LayoutsCompared(PlanCase(question), first, second)


def why_not(question: PlanQuestion, asked: WrittenLayout) -> WhyNot | CannotBe:
    """Say why a layout is not the best.

    Args:
        question: the model, the machine and the batch.
        asked: the layout.

    Returns:
        What rules it out, and what would make it fit; or by how much it loses to the best, and where.

    Raises:
        UsageError: there is no layout to compare it with.
    """
    case = PlanCase(question)
    refused = case.refusal(case.layout(asked))
    return WhyNot(case, asked) if refused is None else CannotBe(case, asked, refused)
