"""The answer of a budget in FLOPs of a whole training: parameters and tokens by each published fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.design.answer import Design
from tfcalc.analysis.design.scaling import FITS, ScalingFit, Split
from tfcalc.analysis.design.spending import STACK, Paid, Spending, paid_for
from tfcalc.answers.plan_keys import BandKeys
from tfcalc.dimensions import LARGEST
from tfcalc.errors import UsageError
from tfcalc.report.declared import (
    Key,
    Record,
    When,
    boolean,
    by_name,
    choice,
    either,
    integer,
    number,
    record,
    records,
    text,
)
from tfcalc.report.opening import Rule, Same, Stated, found, given
from tfcalc.report.sheet import Cell, Column, Rounded, Sheet
from tfcalc.units import rounded, short

if TYPE_CHECKING:
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

LEAST, MOST = 1e12, 1e30
FIGURES = 4
"""Digits of an estimate: the fits differ in the first."""
FOUR = "rounded to four digits, as every estimate"

NOTE = (
    "Estimates: each fit holds for its authors' data, tokens and optimizer, and is extrapolated beyond what they"
    " measured. Losses of different fits cannot be compared."
)


class FitEstimate(Record):
    """Estimates of a published fit, of four digits each."""

    name = text("whose fit", lambda one: one.fit.name)
    optimal_params = number("parameters, an estimate", lambda one: _estimate(one.split.params))
    counted_params = choice(
        ("all", "non-embedding"), "which parameters the fit counts", lambda one: one.fit.counted, typed=True
    )
    optimal_tokens = number("training tokens, an estimate", lambda one: _estimate(one.split.tokens))
    tokens_per_param = number(
        "training tokens for each parameter", lambda one: _estimate(one.split.tokens / one.split.params)
    )
    loss_nats_per_token = either(
        ("number", "null"),
        "the loss that the fit predicts; null where it predicts none",
        lambda one: None if one.split.loss is None else _estimate(one.split.loss),
    )
    formula = text("the fit: N parameters, D tokens, C FLOPs, L loss", lambda one: one.fit.formula)
    constants = by_name("number", "the constants in it", lambda one: one.fit.constants)
    source_ = text("where they come from", lambda one: one.fit.source)

    @property
    def source(self) -> FitEstimate:
        """The record itself: it is about a fit, and how that splits the FLOPs."""
        return self

    @property
    def fit(self) -> ScalingFit:
        """The fit."""
        return self._source[0]  # type: ignore[no-any-return]  # what a record is about may be anything

    @property
    def split(self) -> Split:
        """Split of the FLOPs by the fit."""
        return self._source[1]  # type: ignore[no-any-return]  # as above

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """A fit is a formula with published constants."""
        fit = self.fit
        if steps[0] == "constants":
            yield given(f"published: {fit.source}")
            return
        made = {
            "optimal_params": f"C = 6ND with {fit.formula}",
            "optimal_tokens": f"D = C/6N, with N of {fit.formula}",
            "tokens_per_param": "D/N",
            "loss_nats_per_token": fit.formula,
        }
        constants = ", ".join(f"{name} = {value:g}" for name, value in fit.constants.items())
        note = f"{fit.name} at C = {self.within.compute:g}: {constants}; {FOUR}; {fit.source}"
        yield Stated("formula", note, made[str(steps[0])])


ESTIMATED = found("by the estimated time of a step of a model of this size")
MONEY = When(lambda paid: paid.spending.priced is not None, "price_per_gpu_hour", mutual=True)
BANDED = When(lambda paid: paid.estimate is not None, "band", mutual=True)
PAID = When(lambda optimum: optimum.paid is not None, "spending")


class SpendingKeys(Record):
    """Budget of dollars or GPU hours, and the FLOPs that it pays for."""

    gpu = text("the GPU", lambda paid: paid.spending.card.name)
    gpus = integer("GPUs that hold the model", lambda paid: paid.gpus, found("as given, or as many nodes as hold it"))
    gpu_hours = number("hours of all GPUs together", lambda paid: paid.spending.hours, given("given, or by the price"))
    cost = number(
        "US dollars", lambda paid: paid.spending.hours * paid.spending.priced.typical, given("given"), when=MONEY
    )
    price_per_gpu_hour = number(
        "US dollars for a GPU and an hour",
        lambda paid: paid.spending.priced.typical,
        given("given by --price, by [prices] of the settings file, or the dated list"),
        when=MONEY,
    )
    price_source = text("where the price is from", lambda paid: paid.spending.priced.origin, when=MONEY)
    mfu = number("6ND over the dense bf16 peak, of a model of this size", lambda paid: paid.mfu, ESTIMATED)
    layers = integer("layers of the model that was timed", lambda paid: paid.shape.layers, ESTIMATED)
    d_model = integer("its hidden size", lambda paid: paid.shape.width, ESTIMATED)
    tokens_at_once = integer(
        "tokens of a micro-batch on a GPU", lambda paid: paid.tokens_at_once, ESTIMATED, when=BANDED
    )
    recomputed = boolean("whether its layers are recomputed in backward", lambda paid: paid.recomputed, when=BANDED)
    band = record(BandKeys, "how far estimates were off", lambda paid: paid.estimate.band, when=BANDED)
    compute_flops_low = number(
        "FLOPs where a step takes as long as the upper end of its band", lambda paid: paid.compute_low, ESTIMATED
    )
    compute_flops_high = number(
        "FLOPs where a step takes as long as the lower end of its band", lambda paid: paid.compute_high, ESTIMATED
    )
    optimal_params_low = number(
        "parameters for these FLOPs, with 20 tokens each", lambda paid: _by_rule(paid.compute_low).params, ESTIMATED
    )
    optimal_params_high = number(
        "parameters for these FLOPs, with 20 tokens each", lambda paid: _by_rule(paid.compute_high).params, ESTIMATED
    )
    optimal_tokens_low = number("tokens of the lower end", lambda paid: _by_rule(paid.compute_low).tokens, ESTIMATED)
    optimal_tokens_high = number("tokens of the upper end", lambda paid: _by_rule(paid.compute_high).tokens, ESTIMATED)


@dataclass(frozen=True)
class Optimum(Design):
    """The answer of :func:`~tfcalc.compute_optimal`.

    Attributes:
        compute: FLOPs of the whole training.
        splits: parameters, tokens and loss by each fit; all are estimates.
        paid: the budget that pays for these FLOPs, where dollars or GPU hours were given.
    """

    compute: float
    splits: tuple[tuple[ScalingFit, Split], ...]
    paid: Paid | None = None

    compute_flops = number(
        "of --compute: FLOPs of the whole training",
        lambda optimum: optimum.compute,
        given("the FLOPs of the whole training: of --compute, or that a budget pays for"),
    )
    spending = record(
        SpendingKeys,
        "of --budget-usd and --budget-gpu-hours: what it pays for",
        lambda optimum: optimum.paid,
        when=PAID,
    )
    estimate = Key[bool](
        {
            "const": True,
            "type": "boolean",
            "description": "of --compute: the optimal_ numbers are estimates of four digits",
        },
        lambda _: True,
    )
    optimal_params = number(
        "of --compute: parameters where 20 tokens are trained for each",
        lambda optimum: optimum.answer,
        Same("fits.0.optimal_params"),
    )
    optimal_params_min = number("of --compute: the smallest of all fits", lambda optimum: optimum.spread[0])
    optimal_params_max = number("of --compute: the largest of all fits", lambda optimum: optimum.spread[1])
    fits = records(FitEstimate, "of --compute: what each published fit says", lambda optimum: optimum.splits)

    @property
    def answer(self) -> float:
        """Parameters by the rule of thumb, 20 tokens for each."""
        return _estimate(self.splits[0][1].params)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest number of parameters of all fits."""
        found = [_estimate(split.params) for _, split in self.splits]
        return min(found), max(found)

    @property
    def subject(self) -> str:
        """The budget."""
        return f"compute-optimal for {self.compute:.4g} FLOPs"

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """The smallest and the largest are those of all fits."""
        every = tuple(f"fits.{place}.optimal_params" for place in range(len(self.splits)))
        match steps:
            case ("optimal_params_min",):
                yield Rule("least", every)
            case ("optimal_params_max",):
                yield Rule("most", every)
        yield from super().origins(steps)

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
            subtitle=f"{self.subject}; the fits say {low} to {high} parameters",
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
            notes=[*self._paid(), NOTE],
            assumes=("C = 6ND",),
            see_also=(*self._next(), "--assumptions"),
            assumptions=[_stated(fit) for fit, _ in self.splits],
        )

    def _paid(self) -> Iterator[str]:
        """Lines on what the budget pays for."""
        paid = self.paid
        if paid is None:
            return
        of, price = paid.spending, paid.spending.priced
        hours = f"{rounded(of.hours, 4)} GPU hours of {of.card.name}"
        at = "" if price is None else f" at {price.typical:,.2f} ({price.origin})"
        if of.usd is not None:
            yield f"{of.usd:,.10g} USD are {hours}{at}"
        else:
            yield hours if price is None else f"{hours} are {rounded(of.hours * price.typical, 4)} USD{at}"
        if paid.estimate is None:
            yield f"MFU {100 * paid.mfu:.3g} %, as given: {self.compute:.3g} FLOPs"
            return
        low, high = (_by_rule(compute) for compute in (paid.compute_low, paid.compute_high))
        yield (
            f"MFU {100 * paid.mfu:.3g} %: {paid.shape.layers} layers of {paid.shape.width:,}, FSDP over {paid.gpus:,},"
            f" {paid.tokens_at_once:,} tokens at once{', layers recomputed' if paid.recomputed else ''}"
        )
        yield (
            f"{paid.estimate.in_words(STACK, by_file=of.rates is not None)}; that is {paid.compute_low:.2g} to"
            f" {paid.compute_high:.2g} FLOPs, {_rounded(low.params)} to {_rounded(high.params)} parameters,"
            f" {_rounded(low.tokens)} to {_rounded(high.tokens)} tokens"
        )
        if of.rates is not None:
            yield f"Rates: {of.rates.words}"

    def _next(self) -> tuple[str, ...]:
        params = self.answer
        return (f"tfcalc design --params {_rounded(params)}",) if 1e6 <= params <= LARGEST else ()


def compute_optimal(compute: float | None = None, *, spend: Spending | None = None) -> Optimum:
    """Parameters and tokens that spend the FLOPs of a training best, by published fits.

    Args:
        compute: FLOPs of the whole training, 6 for each parameter and token.
        spend: in its place dollars or GPU hours (:func:`tfcalc.spending`), which pay for FLOPs by the estimated time
            of a step.

    Returns:
        Optimum: ``splits`` has each fit with its parameters, tokens and loss; ``answer`` are the parameters where 20
        tokens are trained for each. All are estimates. ``spending`` has what is paid for, with the band of the time.

    Raises:
        UsageError: the number is beyond any training, or there is no price or rate of the GPU.

    >>> compute_optimal(5.76e23).answer
    69280000000.0
    """
    if (compute is None) == (spend is None):
        raise UsageError("a training has FLOPs or a budget", "give compute, or spend")
    paid = None if spend is None else paid_for(spend, lambda flops: _by_rule(flops).params)
    flops = compute if paid is None else paid.compute
    if isinstance(flops, bool) or not isinstance(flops, int | float) or not LEAST <= flops <= MOST:
        said = f"{flops:g}" if isinstance(flops, float) else repr(flops)
        few = isinstance(flops, int | float) and flops < LEAST
        fact = f"{said} FLOPs are too {'few' if few else 'many'} for a training"
        raise UsageError(fact, f"give FLOPs from {LEAST:g} to {MOST:g}: 6 x parameters x tokens (20 each are optimal)")
    return Optimum(flops, tuple((fit, fit.split(flops)) for fit in FITS), paid)


def _by_rule(compute: float) -> Split:
    """The split with 20 tokens for each parameter."""
    return FITS[0].split(compute)


def _stated(fit: ScalingFit) -> str:
    constants = ", ".join(f"{name} = {value:g}" for name, value in fit.constants.items())
    return f"{fit.name}: {fit.formula}, {constants}; {fit.source}"


def _estimate(number: float) -> float:
    return float(f"{number:.{FIGURES}g}")


def _rounded(number: float) -> str:
    """``2.89B``, ``57.7B``, ``1.4T``."""
    return short(round(number), billion="B")
