"""Rates that are fitted to somebody's own runs: which constants, and how far runs are off before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Answer, Record, boolean, integer, number, record, records, text, texts
from tfcalc.report.opening import count, found, given
from tfcalc.report.sheet import Cell, Column, Rounded, Sheet
from tfcalc.timing.calibration import (
    ONE_ALONE,
    SHARES,
    Calibration,
    FittedConstant,
    StackChoice,
    choose_stacks,
)
from tfcalc.timing.estimate import CALIBRATED, MEASURED, ErrorBand
from tfcalc.timing.measured_runs import LeftOut, MeasuredRun
from tfcalc.timing.rates import table
from tfcalc.timing.rates_file import WIDEST, written

FITTED = found("coordinates of the least weighted squares of the logarithms of estimate over measured seconds")
TURN = found("estimated by constants that were chosen and fitted without it")
MOST_LISTED = 40
"""Runs in the table for people; the JSON has all of them."""


class ConstantKeys(Record):
    """A constant of the fit."""

    name = text("its name", lambda one: one[0].name)
    factor = number("its value: 1 leaves the rates as they were", lambda one: one[1], FITTED)
    meaning = text("what it multiplies", lambda one: one[0].meaning)
    rates = texts("the rates of the file that it changes", lambda one: tuple(one[0].rates))


class StackKeys(Record):
    """Stack that was taken for runs of a framework, whose name does not tell its release."""

    named = text("the stack that the framework's name stands for", lambda choice: choice.named)
    taken = text("the stack whose rates were taken", lambda choice: choice.taken)
    named_percent = number(
        "mean error of runs that were left out, in per cent, with the stack that is named",
        lambda choice: 100 * choice.errors[choice.named],
        TURN,
    )
    taken_percent = number("and with the one that was taken", lambda choice: 100 * choice.errors[choice.taken], TURN)


class _Told(NamedTuple):
    """A run, and its estimates."""

    run: MeasuredRun
    before: float
    after: float
    left_out: float


class CalibratedRun(Record):
    """A run that was measured, and its estimates."""

    run = text("its file, and line", lambda one: one.run.name)
    gpu = text("the GPU", lambda one: one.run.gpu)
    gpus = integer("GPUs in all", lambda one: one.run.at.gpus, given("by the log, the row, or an option"))
    stack = text("whose code ran", lambda one: one.run.stack)
    measured_seconds = number(
        "seconds of a step, as measured", lambda one: one.run.seconds, given("by the log or the row")
    )
    before_seconds = number("by the rates of rates.toml", lambda one: one.before, found("by rates.toml"))
    after_seconds = number("by the constants", lambda one: one.after, FITTED)
    left_out_seconds = number("by constants that are fitted to the other runs", lambda one: one.left_out, TURN)


class ErrorKeys(Record):
    """Errors of estimates of all runs, in per cent."""

    mean_percent = number("mean", lambda errors: 100 * mean(errors), found("the mean of all runs"))
    p50_percent = number("half of the runs were closer", lambda errors: 100 * middle(errors), found("sorted"))
    p90_percent = number("nine of ten were closer", lambda errors: 100 * ninth_tenth(errors), found("sorted"))


class Calibrated(Answer):
    """Constants of the rates, fitted to runs."""

    command: ClassVar[str] = "calibrate"
    about: ClassVar[str] = (
        "Rates of a training step, fitted to measured runs, and how far runs were off before and after."
    )

    runs = integer("runs that were fitted", lambda answer: len(answer.calibration.runs), count("rows and logs"))
    left_out = integer("rows that could not be used", lambda answer: len(answer.unused), count("with their reasons"))
    generations = texts(
        "GPU generations of the runs", lambda answer: tuple(answer.calibration.rates_table["generations"])
    )
    stacks = texts("whose code ran", lambda answer: tuple(answer.calibration.rates_table["stacks"]))
    chosen_stacks = records(
        StackKeys, "choices of stacks, where runs name a framework alone", lambda answer: answer.choices
    )
    factors = records(ConstantKeys, "what was fitted; none where the rates are close as they are", lambda a: a.fitted)
    before = record(
        ErrorKeys, "errors by the rates of rates.toml", lambda a: a.calibration.errors(a.calibration.before)
    )
    after = record(
        ErrorKeys,
        "errors of runs that were left out: each estimated without it",
        lambda answer: answer.errors,
    )
    each = records(CalibratedRun, "the runs", lambda answer: answer.told)
    usable = boolean("whether the runs agree enough for a band", lambda answer: answer.succeeded)
    file = text("the file that was written; empty without -o", lambda answer: answer.target)
    assumptions = texts("what was assumed, and what was left out", lambda answer: answer.assumed)

    def __init__(
        self, runs: Sequence[MeasuredRun], unused: Sequence[LeftOut] = (), *, sources: str = "", target: str = ""
    ) -> None:
        if not runs:
            why = f": {unused[0].place}: {unused[0].why}" if unused else ""
            given = unused[0].remedy if unused else ""
            raise UsageError(
                f"no run can be fitted{why}", f"give what the log does not say, such as {given}" if given else ""
            )
        fitted, self.choices = choose_stacks(runs)
        self.calibration = Calibration(fitted)
        self.unused, self.sources, self.target = unused, sources, target

    @property
    def fitted(self) -> list[tuple[FittedConstant, float]]:
        """The constants and their values."""
        return [(self.calibration.by_name[name], value) for name, value in self.calibration.factors.items()]

    @property
    def told(self) -> list[_Told]:
        """Runs, with their estimates."""
        fit = self.calibration
        return [_Told(*each) for each in zip(fit.runs, fit.before, fit.after, fit.left_out, strict=True)]

    @cached_property
    def errors(self) -> list[float]:
        """Errors of runs that were left out; of one run alone, that of the run."""
        return self.calibration.errors(self.calibration.left_out)

    @property
    def band(self) -> ErrorBand:
        """The band of the file: the errors of runs that were left out; of few runs, that of one measured run."""
        many = len(self.calibration.runs)
        if many < ONE_ALONE:
            known = table()["bands"][MEASURED]
            return ErrorBand(MEASURED, max(known["p50"], middle(self.errors)), max(known["p90"], *self.errors), many)
        return ErrorBand(CALIBRATED, middle(self.errors), ninth_tenth(self.errors), many)

    @property
    def succeeded(self) -> bool:
        """Return whether nine of ten runs are near enough for a band."""
        return self.band.most < WIDEST

    @property
    def file_text(self) -> str:
        """Text of the file of rates."""
        return written(self.calibration.rates_table, self.band, self.fitted_on)

    @property
    def fitted_on(self) -> str:
        """``12 runs of runs.jsonl``."""
        many = len(self.calibration.runs)
        return f"{many:,} run{'s' * (many != 1)} of {self.sources}"

    @property
    def heading(self) -> str:
        """Generations and stacks of the runs."""
        return f"{', '.join(self.generations)} with {', '.join(self.stacks)}"

    @property
    def assumed(self) -> tuple[str, ...]:
        """Reasons why rows are left out, and the form of the fit."""
        reasons = Counter(one.why for one in self.unused)
        left_out = (f"left out: {number:,} x {why}" for why, number in reasons.most_common())
        return (
            "step times are medians of a log's steps after the first",
            "shares of a peak stay at most 1: " + ", ".join(sorted(SHARES)),
            *(_told_choice(choice) for choice in self.choices),
            *left_out,
        )

    def sheet(self) -> Sheet:
        """The constants, then the runs."""
        before, after = self.before, self.after
        many = len(self.calibration.runs)
        which = "left out in turn" if many > 1 else "fitted"
        title = f"{before.mean_percent:.1f} % off by rates.toml, {after.mean_percent:.1f} % by these runs ({which})"
        rows: list[list[Cell]] = [
            [
                one.run,
                Rounded(one.measured_seconds),
                Rounded(one.before_seconds),
                Rounded(one.after_seconds),
                f"{100 * (one.left_out_seconds / one.measured_seconds - 1):+.1f} %",
            ]
            for one in self.each[:MOST_LISTED]
        ]
        return Sheet(
            title=title,
            subtitle=f"{self.fitted_on}: {self.heading}",
            columns=[
                Column("run", numeric=False),
                Column("measured s"),
                Column("rates.toml s", spare=1),
                Column("fitted s"),
                Column("left out" if many > 1 else "fitted"),
            ],
            rows=rows,
            quiet=title,
            notes=tuple(self._notes()),
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--json"),
            assumptions=self.assumed,
        )

    def _notes(self) -> Iterator[str]:
        more = len(self.each) - MOST_LISTED
        if more > 0:
            yield f"{more:,} further runs: --json"
        for choice in self.choices:
            if choice.taken != choice.named:
                yield _told_choice(choice)
        for constant, value in self.fitted:
            yield f"{constant.name} {value:.3f}: {constant.meaning}"
        if not self.fitted:
            yield "No constant brings runs that are left out closer: the rates stay as they are"
        if self.unused:
            yield f"{self.left_out:,} rows are left out: {', '.join(sorted({one.why for one in self.unused}))}"
        if not self.succeeded:
            yield f"The runs disagree: one in ten is off by {self.band.most:.0%} or more, which is no band".replace(
                "%", " %"
            )
        elif self.target:
            yield f"{self.target} is written; read it by --rates {self.target}"
        else:
            yield "-o rates.toml writes them, for --rates of train and plan"


def _told_choice(choice: StackChoice) -> str:
    """``stack megatron-2022, as …: runs left out are 8.2 % off (megatron 17.0 %, deepspeed 15.5 %); --stack …``."""
    others = ", ".join(
        f"{stack} {100 * error:.1f} %" for stack, error in choice.errors.items() if stack != choice.taken
    )
    why = "by the framework's name" if choice.taken == choice.named else "as the framework's name does not tell it"
    return (
        f"stack {choice.taken}, {why}: runs left out are {100 * choice.errors[choice.taken]:.1f} % off"
        f" ({others}); --stack says another"
    )


def mean(errors: Sequence[float]) -> float:
    """Return the mean."""
    return sum(errors) / len(errors)


def middle(errors: Sequence[float]) -> float:
    """Return the error that half of the runs do not reach."""
    return sorted(errors)[len(errors) // 2]


def ninth_tenth(errors: Sequence[float]) -> float:
    """Return the error that nine of ten runs do not reach; of fewer, the largest.

    >>> ninth_tenth([0.1, 0.3, 0.2])
    0.3
    """
    return sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]
