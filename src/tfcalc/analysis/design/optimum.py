"""The answer of a budget in FLOPs of a whole training: parameters and tokens by each published fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.design.scaling import FITS, ScalingFit, Split
from tfcalc.dimensions import LARGEST
from tfcalc.errors import UsageError
from tfcalc.report.declared import SCHEMA_VERSION
from tfcalc.report.opening import Opener, Rule, Same, Stated, Way, given
from tfcalc.report.sheet import Cell, Column, Rounded, Sheet
from tfcalc.units import short

if TYPE_CHECKING:
    from tfcalc.report.paths import Step

LEAST, MOST = 1e12, 1e30
FIGURES = 4
"""Digits of an estimate: the fits differ in the first."""
FOUR = "rounded to four digits, as every estimate"

NOTE = (
    "Estimates: each fit holds for its authors' data, tokens and optimizer, and is extrapolated beyond what they"
    " measured. Losses of different fits cannot be compared."
)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The answer of :func:`~tfcalc.compute_optimal`.

    Attributes:
        compute: FLOPs of the whole training.
        splits: parameters, tokens and loss by each fit; all are estimates.
    """

    compute: float
    splits: tuple[tuple[ScalingFit, Split], ...]

    @property
    def answer(self) -> float:
        """Parameters by the rule of thumb, 20 tokens for each."""
        return _estimate(self.splits[0][1].params)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest number of parameters of all fits."""
        found = [_estimate(split.params) for _, split in self.splits]
        return min(found), max(found)

    def opener(self) -> OptimumOrigins:
        """Where its numbers come from."""
        return OptimumOrigins(self)

    def to_dict(self) -> dict[str, object]:
        """As in ``--json``: estimates have four digits."""
        low, high = self.spread
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "design",
            "of": "compute",
            "compute_flops": self.compute,
            "estimate": True,
            "optimal_params": self.answer,
            "optimal_params_min": low,
            "optimal_params_max": high,
            "fits": [
                {
                    "name": fit.name,
                    "optimal_params": _estimate(split.params),
                    "counted_params": fit.counted,
                    "optimal_tokens": _estimate(split.tokens),
                    "tokens_per_param": _estimate(split.tokens / split.params),
                    "loss_nats_per_token": None if split.loss is None else _estimate(split.loss),
                    "formula": fit.formula,
                    "constants": dict(fit.constants),
                    "source": fit.source,
                }
                for fit, split in self.splits
            ],
        }

    def sheet(self) -> Sheet:
        """A row for each fit."""
        low, high = (short(round(params), billion="B") for params in self.spread)
        rule = self.splits[0][1]
        rows: list[list[Cell]] = [
            [
                fit.name,
                _rounded(split.params),
                _rounded(split.tokens),
                Rounded(_estimate(split.tokens / split.params)),
                "" if split.loss is None else Rounded(_estimate(split.loss)),
                fit.counted,
            ]
            for fit, split in self.splits
        ]
        return Sheet(
            title=f"about {_rounded(rule.params)} parameters on {_rounded(rule.tokens)} tokens (an estimate)",
            subtitle=f"compute-optimal for {self.compute:g} FLOPs; the fits say {low} to {high} parameters",
            columns=[
                Column("fit", numeric=False, folds=True),
                Column("parameters"),
                Column("tokens"),
                Column("tokens/parameter"),
                Column("loss", spare=1),
                Column("counts", numeric=False, spare=2),
            ],
            rows=rows,
            quiet=_rounded(rule.params),
            notes=[NOTE],
            assumes=("C = 6ND",),
            see_also=(*self._next(), "--assumptions"),
            assumptions=[_stated(fit) for fit, _ in self.splits],
        )

    def _next(self) -> tuple[str, ...]:
        params = self.answer
        return (f"tfcalc design --params {_rounded(params)}",) if 1e6 <= params <= LARGEST else ()


def compute_optimal(compute: float) -> Optimum:
    """Parameters and tokens that spend the FLOPs of a training best, by published fits.

    Args:
        compute: FLOPs of the whole training, 6 for each parameter and token.

    Returns:
        Optimum: ``splits`` has each fit with its parameters, tokens and loss; ``answer`` are the parameters where 20
        tokens are trained for each. All are estimates.

    Raises:
        UsageError: the number is beyond any training.

    >>> compute_optimal(5.76e23).answer
    69280000000.0
    """
    if isinstance(compute, bool) or not isinstance(compute, int | float) or not LEAST <= compute <= MOST:
        raise UsageError(f"compute {compute!r} is no training's", f"give FLOPs from {LEAST:g} to {MOST:g}")
    return Optimum(compute, tuple((fit, fit.split(compute)) for fit in FITS))


def _stated(fit: ScalingFit) -> str:
    constants = ", ".join(f"{name} = {value:g}" for name, value in fit.constants.items())
    return f"{fit.name}: {fit.formula}, {constants}; {fit.source}"


def _estimate(number: float) -> float:
    return float(f"{number:.{FIGURES}g}")


def _rounded(number: float) -> str:
    """``2.89B``, ``57.7B``, ``1.4T``."""
    return short(round(number), billion="B")


class OptimumOrigins(Opener):
    """A fit is a formula with published constants."""

    def __init__(self, answer: Optimum) -> None:
        self.answer = answer
        self.heading = f"compute-optimal for {answer.compute:g} FLOPs"

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a fit, or of all of them."""
        every = tuple(f"fits.{place}.optimal_params" for place in range(len(self.answer.splits)))
        match steps:
            case ("compute_flops",):
                return given("--compute: the FLOPs of the whole training")
            case ("optimal_params",):
                return Same(every[0])
            case ("optimal_params_min",):
                return Rule("least", every)
            case ("optimal_params_max",):
                return Rule("most", every)
            case ("fits", int(place), "constants", str()):
                return given(f"published: {self.answer.splits[place][0].source}")
            case ("fits", int(place), str(key)):
                return self._estimate(place, key)
        return None

    def _estimate(self, place: int, key: str) -> Stated:
        fit = self.answer.splits[place][0]
        made = {
            "optimal_params": f"C = 6ND with {fit.formula}",
            "optimal_tokens": f"D = C/6N, with N of {fit.formula}",
            "tokens_per_param": "D/N",
            "loss_nats_per_token": fit.formula,
        }
        constants = ", ".join(f"{name} = {value:g}" for name, value in fit.constants.items())
        note = f"{fit.name} at C = {self.answer.compute:g}: {constants}; {FOUR}; {fit.source}"
        return Stated("formula", note, made[key])
