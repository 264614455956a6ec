"""The memory of training and of serving, to be opened up: every term, tensor by tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.items import Item
from tfcalc.core.measure import bytes_of
from tfcalc.held.numbers import of_formulas, of_numbers
from tfcalc.held.plans import Training
from tfcalc.questions import serving_memory, serving_report, training_memory, training_report
from tfcalc.questions.common import default_run
from tfcalc.questions.explain import Tree

if TYPE_CHECKING:
    from tfcalc.conventions import Definitions
    from tfcalc.held.plans import Serving
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def opened_memory(
    model: Model,
    run: Workload | None,
    definitions: Definitions,
    *,
    training: Training | None,
    serving: Serving | None,
) -> Tree:
    """The terms of a training step, each whole, with what is temporary at its peak; or those of serving."""
    run = run or default_run(model)
    if serving is not None and training is None and not run.training:
        found, requests = serving_memory.served(model, run, serving), serving_memory.at_work(run, serving)
        whole, letters = found.alive, serving_memory.LETTERS
        stated = serving_report.conventions(requests, serving, found)
        notes = tuple(serving_report.notes(requests, serving, found))
        return _tree(model, requests, whole, stated | {"units": definitions.units}, notes, letters)
    plan, run = training or Training(), run.replaced(phase="train")
    model.check(run)
    step = training_memory.training_step(model, run, plan)
    stated = training_report.conventions(run, plan) | {"units": definitions.units}
    notes = (f"each term by itself; at the peak {step.peak.total:,} bytes are alive", *training_report.notes(run, plan))
    return _tree(model, run, step.terms, stated, notes, training_memory.LETTERS)


def _tree(
    model: Model,
    run: Workload,
    whole: Component,
    stated: dict[str, object],
    notes: tuple[str, ...],
    letters: dict[str, str],
) -> Tree:
    return Tree(
        model, run, of_numbers(whole).root(), of_formulas(whole).root(), _items, stated, notes, letters
    )


def _items(cost: Cost) -> list[Item]:
    """The bytes of each tensor: its numbers, and the bytes or bits of each."""
    return [_item(held.name, held.factors, held.bits) for held in cost.held]


def _item(name: str, factors: tuple[object, ...], bits: int) -> Item:
    from tfcalc.core.number import product

    size = bytes_of(product(factors), bits)  # type: ignore[arg-type]  # numbers, of whatever kind
    whole = bits % 8 == 0
    width = () if bits == 8 else (bits // 8,) if whole else ()
    return Item(name, (*width, *factors) if whole else (size,), size)  # type: ignore[arg-type]
