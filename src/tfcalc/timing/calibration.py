"""A few constants of the rates, fitted to runs that were measured: one for few runs, up to six for many.

The seconds of a run are a function of rates; each constant multiplies some of them. Of runs with estimates e and
measured seconds t, the constants c minimize Σ w (log e(c) - log t)² + λ Σ (log c)², where w makes of squares absolute
values, so that a run that something disturbed counts no more than another, and λ holds back what the runs say little
about. Constants are taken one after another: the one with which runs that were left out come closest, as long as it
brings them clearly closer. Each run is left out in its turn (of many runs, one of twelve parts).

Whose code ran is chosen likewise where runs name a framework alone: the stack whose constants bring runs that were
left out clearly closer, whichever of them is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

from tfcalc.named_tuple import NamedTuple
from tfcalc.timing.measured_runs import NAMED_ALIKE, MeasuredRun
from tfcalc.timing.rates import FP4, FP8, Rates, rates_of, table
from tfcalc.timing.step import StepTime

MOST_CONSTANTS = 6
RUNS_OF_A_CONSTANT = 2
"""Runs for each constant beyond the first."""
ONE_ALONE = 4
"""With fewer runs there is one constant."""
GAIN = 0.9
"""A further constant is taken where it leaves less than this share of the error."""
STACK_RUNS, STACK_GAIN = 12, 0.7
"""Runs from which on a stack is chosen, and the share of the named one's error that another may leave: in draws of 8
runs of published sources, and at 0.9, some choices were worse for the other runs."""
BLUNT = 0.03
"""Relative error up to which squares count: beyond it, a run's error counts as it is."""
FURTHER, SCALE = 0.1, 0.01
"""λ of constants beyond the scale, and of the scale."""
STEP = 0.05
"""Of the logarithm of a constant: the width of a difference quotient."""
LONGEST_STEP, CLOSE, ROUNDS, FEW_ROUNDS = 0.5, 5e-3, 6, 2
"""Of the logarithm: the longest step of an iteration, and the one that ends them; how many there are at most."""
SAMPLE, PARTS = 24, 12
"""Runs by which constants are chosen; parts in which more runs are left out."""
SHARES = frozenset(("product", "flash_forward", "flash_backward", "memory", "eager", "hidden", "tensor", "experts"))
"""Rates that are shares of something: at most 1."""

Factors = Mapping[str, float]
"""Logarithms of constants, by name."""


class FittedConstant(NamedTuple):
    """A constant: its name, the section of the rates, and the rates that it divides (power -1) or multiplies (1)."""

    name: str
    section: str
    rates: Mapping[str, int]
    meaning: str


def constants_of(runs: Sequence[MeasuredRun], known: Mapping[str, Any]) -> list[FittedConstant]:
    """Return the constants that these runs can say something about, the scale first."""
    generations = dict.fromkeys(run.machine.generation for run in runs)
    stacks = dict.fromkeys(run.stack for run in runs)
    routed = any(layer.experts for run in runs for layer in run.work.layers)
    found = [FittedConstant("scale", "machine", {"scale": 1}, "times the seconds of every part")]
    attention = {"flash_forward": -1, "flash_backward": -1}
    for one in generations:
        of = f" of {one}" if len(generations) > 1 else ""
        suffix = f"_{one.replace('-', '_')}" if len(generations) > 1 else ""
        section = f"generations.{one}"
        found.append(
            FittedConstant(f"products{suffix}", section, {"product": -1}, f"times the seconds of products{of}")
        )
        found.append(FittedConstant(f"attention{suffix}", section, attention, f"times the seconds of attention{of}"))
        formats = {run.precision for run in runs if run.machine.generation == one}
        for name, spelled in (("fp8", FP8), ("fp4", FP4)):
            if formats & set(spelled) and formats - set(spelled):
                meaning = f"times the seconds of products in {name}{of}"
                found.append(FittedConstant(f"{name}{suffix}", section, {name: -1}, meaning))
    found.append(FittedConstant("memory", "machine", {"memory": -1}, "times the seconds of what memory bounds"))
    found.append(FittedConstant("network", "machine", {"network": -1}, "times the seconds of messages between nodes"))
    launches = {"launch": 1, "latency": 1, "optimizer": 1}
    found.append(
        FittedConstant("launches", "machine", launches, "times the seconds of launches, latencies and the optimizer")
    )
    if routed:
        found.append(
            FittedConstant("grouped", "machine", {"expert_rate": -1}, "times the seconds of experts' products")
        )
    for one in stacks:
        of = f" of {one}" if len(stacks) > 1 else ""
        suffix = f"_{one}" if len(stacks) > 1 else ""
        section = f"stacks.{one}"
        exposed = {"tensor": 1, "experts": 1}
        found.append(FittedConstant(f"exposed{suffix}", section, exposed, f"times the exposed share of messages{of}"))
        found.append(
            FittedConstant(f"hidden{suffix}", section, {"hidden": -1}, f"times less of data parallel is hidden{of}")
        )
        if known["stacks"][one].get("host"):
            found.append(FittedConstant(f"host{suffix}", section, {"host": 1}, f"times the seconds of Python{of}"))
    return found


class Fitted(NamedTuple):
    """A fit: logarithms of the constants, the residuals there, and their derivatives."""

    factors: dict[str, float]
    residuals: list[float]
    slopes: list[list[float]]


class Calibration:
    """The constants that runs say, and how far each run is off: by rates as they were, fitted, and left out."""

    def __init__(self, runs: Sequence[MeasuredRun], known: Mapping[str, Any] | None = None) -> None:
        self.runs = runs
        self.known = table() if known is None else known
        self.base = [rates_of(run.machine.generation, run.stack, self.known) for run in runs]
        self.by_name = {constant.name: constant for constant in constants_of(runs, self.known)}

    # --- seconds by rates

    def rates(self, place: int, factors: Factors) -> Rates:
        """Return the rates of one of the runs with these constants."""
        run, base = self.runs[place], self.base[place]
        changed: dict[str, Any] = {}
        for name, factor in factors.items():
            constant = self.by_name[name]
            if factor and self._touches(constant, run):
                for rate, power in constant.rates.items():
                    changed[rate] = bounded(rate, changed.get(rate, getattr(base, rate)) * math.exp(power * factor))
        return base._replace(**changed)

    @staticmethod
    def _touches(constant: FittedConstant, run: MeasuredRun) -> bool:
        kind, _, of = constant.section.partition(".")
        return of in ("", run.machine.generation if kind == "generations" else run.stack)

    def seconds(self, place: int, factors: Factors) -> float:
        """Return the seconds of one of the runs, estimated with these constants."""
        run = self.runs[place]
        by = StepTime(run.work, run.machine, self.rates(place, factors), precision=run.precision)
        return float(by.parts(run.at).seconds)

    def residual(self, place: int, factors: Factors) -> float:
        """Return the logarithm of a run's estimate over what was measured."""
        return math.log(self.seconds(place, factors) / self.runs[place].seconds)

    # --- the fit

    def linear(self, names: Sequence[str], factors: Factors, places: Sequence[int]) -> Fitted:
        """Return the residuals of runs at these constants, and their derivatives by each of ``names``."""
        at = {name: factors.get(name, 0.0) for name in names}
        residuals = [self.residual(place, at) for place in places]
        slopes = [
            [(self.residual(place, {**at, name: at[name] + STEP}) - here) / STEP for name in names]
            for place, here in zip(places, residuals, strict=True)
        ]
        return Fitted(at, residuals, slopes)

    def fitted(self, names: Sequence[str], start: Factors, places: Sequence[int], rounds: int = ROUNDS) -> Fitted:
        """Return the fit of these constants to some of the runs."""
        found = self.linear(names, start, places)
        for _ in range(rounds):
            step = best_step(found, names, range(len(places)))
            moved = {name: found.factors[name] + change for name, change in zip(names, step, strict=True)}
            found = self.linear(names, moved, places)
            if max(map(abs, step), default=0.0) < CLOSE:
                break
        return found

    @cached_property
    def origin(self) -> Fitted:
        """Residuals by the rates as they were, and their derivatives by each constant."""
        return self.linear(list(self.by_name), {}, range(len(self.runs)))

    def chosen(self, places: Sequence[int]) -> list[str]:
        """Return the constants that bring runs that were left out closer, in the order in which they are taken."""
        if not places:
            return []
        if len(places) < ONE_ALONE:
            return [next(iter(self.by_name))]  # nothing says which part is slow
        some = [places[place] for place in spread(len(places), SAMPLE)]
        everything = list(self.by_name)
        at = Fitted({}, [self.origin.residuals[place] for place in some], [self.origin.slopes[place] for place in some])
        least, names = mean_error(at.residuals), list[str]()
        while len(names) < min(MOST_CONSTANTS, len(places) // RUNS_OF_A_CONSTANT):
            others = [name for name in everything if name not in names]
            errors = {name: mean_error(left_out(at, everything, [*names, name])) for name in others}
            best = min(errors, key=errors.__getitem__, default="")
            if not best or errors[best] > GAIN * least:
                break
            names.append(best)
            at = self.linear(everything, self.fitted(names, at.factors, some, FEW_ROUNDS).factors, some)
            least = errors[best]
        return names

    def of_runs(self, places: Sequence[int]) -> Fitted:
        """Return the constants that are chosen by these runs, and fitted to them."""
        return self.fitted(self.chosen(places), {}, places)

    @cached_property
    def fit(self) -> Fitted:
        """Constants by all runs."""
        return self.of_runs(range(len(self.runs)))

    @property
    def factors(self) -> dict[str, float]:
        """The constants."""
        return {name: math.exp(value) for name, value in self.fit.factors.items()}

    # --- how far runs are off

    @cached_property
    def before(self) -> list[float]:
        """Estimates of the runs by the rates as they were."""
        return [self.seconds(place, {}) for place in range(len(self.runs))]

    @cached_property
    def after(self) -> list[float]:
        """Estimates of the runs with the constants that are fitted to all of them."""
        return [self.seconds(place, self.fit.factors) for place in range(len(self.runs))]

    @cached_property
    def left_out(self) -> list[float]:
        """Estimates of the runs, each with constants that are chosen and fitted by the others."""
        found = list(self.after)
        for part in parts(len(self.runs)) if len(self.runs) > 1 else ():
            at = self.of_runs([place for place in range(len(self.runs)) if place not in part]).factors
            for place in part:
                found[place] = self.seconds(place, at)
        return found

    def errors(self, estimates: Sequence[float]) -> list[float]:
        """Return |estimate / measured - 1| of the runs."""
        return [abs(one / run.seconds - 1) for one, run in zip(estimates, self.runs, strict=True)]

    @cached_property
    def rates_table(self) -> dict[str, Any]:
        """Return the rates of the runs' generations and stacks, with the constants."""
        found: dict[str, Any] = {
            "generations": {one: dict(self.known["generations"][one]) for one in self._sections("generations")},
            "machine": {"scale": 1.0, **self.known["machine"]},
            "stacks": {one: deepcopy(self.known["stacks"][one]) for one in self._sections("stacks")},
        }
        for name, factor in self.fit.factors.items():
            constant = self.by_name[name]
            kind, _, of = constant.section.partition(".")
            section = found[kind][of] if of else found[kind]
            in_its_place = [rates[of] for rates in found["stacks"].values() if kind == "generations" and of in rates]
            for rate, power in constant.rates.items():
                for one in (section, *(rates for rates in in_its_place if rate in rates)):
                    one[rate] = bounded(rate, one[rate] * math.exp(power * factor))
        return found

    def _sections(self, kind: str) -> Iterator[str]:
        of = "generation" if kind == "generations" else ""
        yield from dict.fromkeys(run.machine.generation if of else run.stack for run in self.runs)


class StackChoice(NamedTuple):
    """Stack that is ``taken`` for runs whose framework's name stands for the stack ``named``.

    ``errors``: mean relative error, by each stack, of runs that were left out.
    """

    named: str
    taken: str
    errors: Mapping[str, float]


def choose_stacks(
    runs: Sequence[MeasuredRun], known: Mapping[str, Any] | None = None
) -> tuple[list[MeasuredRun], list[StackChoice]]:
    """Return the runs with the stacks that they are closest to, and the choices: of few runs there is none."""
    found, choices = list(runs), list[StackChoice]()
    for named in dict.fromkeys(run.stack for run in runs if not run.said):
        places = [place for place, run in enumerate(runs) if run.stack == named and not run.said]
        if len(places) >= STACK_RUNS:
            choices.append(_choice(named, [runs[places[place]] for place in spread(len(places), SAMPLE)], known))
            for place in places:
                found[place] = runs[place]._replace(stack=choices[-1].taken)
    return found, choices


def _choice(named: str, runs: Sequence[MeasuredRun], known: Mapping[str, Any] | None) -> StackChoice:
    """Return the choice for runs of one framework."""
    errors = {}
    for stack in NAMED_ALIKE:
        of_stack = Calibration([run._replace(stack=stack) for run in runs], known)
        errors[stack] = of_stack.errors(of_stack.left_out)
    best = min(errors, key=lambda stack: sum(errors[stack]))
    means = {stack: sum(of_stack) / len(of_stack) for stack, of_stack in errors.items()}
    return StackChoice(named, best if clearly_closer(errors[best], errors[named]) else named, means)


def clearly_closer(errors: Sequence[float], usual: Sequence[float]) -> bool:
    """Return whether these errors are clearly smaller than the usual ones of the same runs, whichever is not counted.

    >>> clearly_closer([0.1, 0.1, 0.1], [0.2, 0.2, 0.2]), clearly_closer([0.1, 0.1, 0.1], [0.1, 0.1, 2.0])
    (True, False)
    """
    gains = [STACK_GAIN * one - error for one, error in zip(usual, errors, strict=True)]
    return sum(gains) > max(gains)


def bounded(rate: str, value: float) -> float:
    """Return the value of a rate; a share is at most 1."""
    return min(value, 1.0) if rate in SHARES else value


def mean_error(residuals: Sequence[float]) -> float:
    """Return the mean of the relative errors of these logarithms."""
    return sum(abs(math.expm1(one)) for one in residuals) / len(residuals)


def spread(number: int, most: int) -> list[int]:
    """Return places, evenly spread, at most this many.

    >>> spread(5, 3), spread(2, 3)
    ([0, 1, 3], [0, 1])
    """
    return list(range(number)) if number <= most else [place * number // most for place in range(most)]


def parts(number: int) -> list[list[int]]:
    """Return what is left out in turn: each place alone; of many, one of some parts.

    >>> parts(3)
    [[0], [1], [2]]
    """
    size = min(number, PARTS)
    return [list(range(first, number, size)) for first in range(size)]


def left_out(at: Fitted, everything: Sequence[str], names: Sequence[str]) -> list[float]:
    """Return the residual of each run by a fit of ``names`` to the others, in the linear neighbourhood of ``at``."""
    columns = [everything.index(name) for name in names]
    slopes = [[of_run[column] for column in columns] for of_run in at.slopes]
    near = Fitted({name: at.factors.get(name, 0.0) for name in names}, at.residuals, slopes)
    found = list(at.residuals)
    for part in parts(len(found)):
        step = best_step(near, names, [place for place in range(len(found)) if place not in part])
        for place in part:
            found[place] += sum(slope * change for slope, change in zip(slopes[place], step, strict=True))
    return found


def best_step(at: Fitted, names: Sequence[str], places: Sequence[int]) -> list[float]:
    """Return the step from ``at`` to the best constants for the runs at ``places``, where residuals are linear."""
    size = len(names)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    weights = [BLUNT / max(abs(at.residuals[place]), BLUNT) for place in places]
    for place, weight in zip(places, weights, strict=True):
        residual, slopes = at.residuals[place], at.slopes[place]
        for row in range(size):
            right[row] -= weight * slopes[row] * residual
            for column in range(size):
                matrix[row][column] += weight * slopes[row] * slopes[column]
    usual = sum(weights) / len(weights) if weights else 1.0
    for row, name in enumerate(names):
        held_back = usual * (SCALE if name == "scale" else FURTHER)
        matrix[row][row] += held_back
        right[row] -= held_back * at.factors[name]
    return [max(-LONGEST_STEP, min(LONGEST_STEP, one)) for one in solved(matrix, right)]


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return x of A x = b, of a positive definite A.

    >>> solved([[2.0, 1.0], [1.0, 3.0]], [3.0, 4.0])
    [1.0, 1.0]
    """
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place, pivot in enumerate(rows):
        for below in rows[place + 1 :]:
            share = below[place] / pivot[place]
            for column in range(place, len(pivot)):
                below[column] -= share * pivot[column]
    found = [0.0] * len(rows)
    for place in reversed(range(len(rows))):
        row = rows[place]
        known = sum(row[column] * found[column] for column in range(place + 1, len(rows)))
        found[place] = (row[-1] - known) / row[place]
    return found
