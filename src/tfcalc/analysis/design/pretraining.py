"""Training of a designed model: its FLOPs by 6ND, the loss that published fits predict, and days on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.design.scaling import FITS, FLOPS_PER_PARAM, ScalingFit
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Record, When, integer, number, records, text
from tfcalc.report.opening import Constant, Stated, given, ratio

if TYPE_CHECKING:
    from tfcalc.hardware import Accelerator
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step

RULE = 20
"""Tokens for each parameter, where FLOPs are best spent (arXiv 2203.15556)."""
A_DAY = 86_400
PRECISION = "bf16"


class Cluster(NamedTuple):
    """GPUs, and the share of their dense peak that a training reaches."""

    card: Accelerator
    gpus: int
    mfu: float


class Pretraining(NamedTuple):
    """Training of ``params`` parameters on ``tokens`` tokens, on a ``cluster`` if one is named."""

    params: int
    tokens: int
    cluster: Cluster | None

    @property
    def compute(self) -> int:
        """FLOPs by 6ND."""
        return FLOPS_PER_PARAM * self.params * self.tokens

    @property
    def days(self) -> float | None:
        """Days on the cluster; None without one."""
        if self.cluster is None:
            return None
        card, gpus, mfu = self.cluster
        return self.compute / (gpus * card.peaks[PRECISION] * mfu * A_DAY)


PLACED = When(lambda run: run.cluster is not None, "gpus", mutual=True)


class FitLoss(Record):
    """Loss that a fit predicts."""

    name = text("whose fit", lambda one: one.fit.name)
    loss_nats_per_token = number("the loss that it predicts, an estimate", lambda one: one.loss)
    source_ = text("where its constants come from", lambda one: one.fit.source)

    @property
    def source(self) -> FitLoss:
        """The record itself: it is about a fit and a training."""
        return self

    @property
    def fit(self) -> ScalingFit:
        """The fit."""
        return self._source[0]  # type: ignore[no-any-return]  # what a record is about may be anything

    @property
    def loss(self) -> float:
        """Its loss."""
        run: Pretraining = self._source[1]
        assert self.fit.loss is not None
        return round(self.fit.loss(run.params, run.tokens), 3)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:  # noqa: ARG002  # it has one number
        """A loss is a formula with published constants."""
        constants = ", ".join(f"{name} = {value:g}" for name, value in self.fit.constants.items())
        yield Stated("formula", f"{constants}; rounded; {self.fit.source}", self.fit.formula)


class PretrainingKeys(Record):
    """Training of the best shape on the tokens that were asked for."""

    tokens = integer("training tokens", lambda run: run.tokens, given("given: --tokens"))
    compute_flops = number(
        "FLOPs of the training by 6ND",
        lambda run: run.compute,
        ratio(Constant(FLOPS_PER_PARAM, "of 6ND"), ".params", ".tokens"),
    )
    params = integer("N: parameters of the best shape", lambda run: run.params, given("those of the best shape"))
    tokens_per_param = number("training tokens for each parameter", ratio(".tokens", over=(".params",)))
    optimal_tokens = number(
        "tokens on which FLOPs are best spent for this size, by 20 for each parameter",
        ratio(Constant(RULE, "tokens for each parameter (arXiv 2203.15556)"), ".params"),
    )
    losses = records(
        FitLoss,
        "the loss by each fit that predicts one",
        lambda run: [(fit, run) for fit in FITS if fit.loss is not None],
    )
    gpu = text("the GPU", lambda run: run.cluster.card.name, when=PLACED)
    gpus = integer(
        "GPUs", lambda run: run.cluster.gpus, given("given: --gpus"), when=When(lambda run: run.cluster is not None)
    )
    mfu = number("share of the dense bf16 peak", lambda run: run.cluster.mfu, given("given: --mfu"), when=PLACED)
    peak_flops_per_second = number(
        "dense bf16 peak of a GPU",
        lambda run: run.cluster.card.peaks[PRECISION],
        given("by the datasheet"),
        when=PLACED,
    )
    days = number(
        "days of the training",
        lambda run: run.days,
        ratio(".compute_flops", over=(".gpus", ".peak_flops_per_second", ".mfu", Constant(A_DAY, "seconds of a day"))),
        when=PLACED,
    )
