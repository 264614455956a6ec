"""The JSON object of ``memory``, for those who read few of its entries: each number is found when it is read."""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import default_run
from tfcalc.analysis.memory import memory, step_of
from tfcalc.conventions import Conventions
from tfcalc.report import head
from tfcalc.report.later import InTurn, Later, OneByOne, each_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfcalc.analysis.budget import Budget
    from tfcalc.analysis.verdict import Fit
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.workload import Workload


def memory_entries(
    model: Model,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
) -> Mapping[str, Any]:
    """What :func:`~tfcalc.memory` answers, as its ``to_dict()`` has it.

    The numbers at its top are plain ones, which take a part of the time, and the rest waits until somebody reads it.
    Raises as :func:`~tfcalc.memory`.
    """
    by = conventions or Conventions()

    def whole() -> Mapping[str, Any]:
        return memory(model, workload, by, training=training, serving=serving, weights=weights).entries()

    return InTurn(_numbers(model, (workload, training, serving, weights), by), Later({}, whole))


def fits_entries(
    model: Model,
    budget: Budget,
    workload: Workload | None = None,
    conventions: Conventions | None = None,
    *,
    training: Training | None = None,
    serving: Serving | None = None,
    weights: str | None = None,
    margin: int,
    utilization: float | None = None,
) -> Mapping[str, Any]:
    """The same of :func:`~tfcalc.fits`: what would make it fit is searched last. Raises as :func:`~tfcalc.fits`."""
    from tfcalc.analysis.fits import Question, asked_of, held_against

    by, question = conventions or Conventions(), Question(workload, training, serving, weights)
    usable, question = asked_of(model, budget, question, margin, utilization)
    numbers = _numbers(model, question, by, noting=bool(usable.card))
    of_budget = {
        "budget_bytes": lambda: usable.bytes,
        "margin_percent": lambda: margin,
        "headroom_bytes": lambda: usable.bytes - numbers["total_bytes"],
    }

    @cache
    def found(*, changes: bool) -> Fit:
        return held_against(model, usable, question, margin, by).fit(changes=changes)

    def without() -> Mapping[str, Any]:
        return {key: value for key, value in found(changes=False).judged().items() if key != "changes"}

    whole = Later({}, lambda: found(changes=True).to_dict())
    return InTurn(numbers, OneByOne(of_budget), Later({}, without), whole)


def _numbers(
    model: Model,
    question: tuple[Workload | None, Training | None, Serving | None, str | None],
    by: Conventions,
    *,
    noting: bool = False,
) -> Mapping[str, Any]:
    """How the answer begins, and the numbers at its top; with allocations noted (``noting``) that a card will show."""
    workload, training, serving, weights = question
    if step := step_of(model, workload, by, training, serving, weights):
        return _of_training(model, *step, by, noting=noting)
    if serving is not None:
        return _of_serving(model, workload or default_run(model), serving, by)
    report = memory(model, workload, by, weights=weights)
    return {**head(report.command, report.model, report.conventions), **report.totals}


def _of_training(
    model: Model, workload: Workload, plan: Training, by: Conventions, *, noting: bool
) -> Mapping[str, Any]:
    from tfcalc.analysis.training_numbers import training_numbers
    from tfcalc.analysis.training_plan import MEGATRON
    from tfcalc.analysis.training_report import TOTALS, in_full, on_card, resolved

    workload, plan = resolved(model, workload, plan)
    numbers = training_numbers(model, workload, plan, noting=noting)
    first = head("memory", model.described(), in_full(workload, plan, by))
    of_step = each_of(numbers, TOTALS)
    if plan.backend == MEGATRON:
        return InTurn(first, of_step)
    from tfcalc.analysis.card import KEYS

    shown = Later({}, lambda: on_card(model, workload, plan, numbers.peak.total))
    return InTurn(first, of_step, each_of(shown, {key: itemgetter(key) for key in KEYS}))


def _of_serving(model: Model, workload: Workload, plan: Serving, by: Conventions) -> Mapping[str, Any]:
    from tfcalc.analysis.serving_memory import at_work, served
    from tfcalc.analysis.serving_report import TOTALS, in_full, resolved

    workload, plan = resolved(model, workload, plan, by)
    found, requests = served(model, workload, plan, by.dtype, formulas=False), at_work(workload, plan)
    first = head("memory", model.described(), in_full(requests, plan, found, by))
    return InTurn(first, each_of(found, TOTALS))
