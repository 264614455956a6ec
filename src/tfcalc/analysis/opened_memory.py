"""The memory of training and of serving, to be opened up: every term, tensor by tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis import serving_memory, serving_report, training_memory, training_report
from tfcalc.analysis.alive import LETTERS
from tfcalc.analysis.closed_form import Formula
from tfcalc.analysis.common import default_run
from tfcalc.analysis.explain import Tree
from tfcalc.analysis.targets import find_term
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.items import Item, in_bytes
from tfcalc.core.measure import bytes_held
from tfcalc.core.tensors import of_formulas, of_numbers
from tfcalc.plans import Training
from tfcalc.report import polynomial
from tfcalc.symbols import legend

if TYPE_CHECKING:
    from tfcalc.conventions import Conventions
    from tfcalc.model import Model
    from tfcalc.plans import Serving
    from tfcalc.workload import Workload


def opened_memory(
    model: Model,
    workload: Workload | None,
    conventions: Conventions,
    *,
    training: Training | None,
    serving: Serving | None,
) -> Tree:
    """The terms of a training step, each whole, with what is temporary at its peak; or those of serving."""
    workload = workload or default_run(model)
    if serving is not None and training is None and not workload.training:
        workload, serving = serving_report.resolved(model, workload, serving, conventions)
        found, requests = serving_memory.served(model, workload, serving), serving_memory.at_work(workload, serving)
        whole, letters = found.alive, serving_memory.LETTERS
        stated = serving_report.stated(requests, serving, found)
        notes = tuple(serving_report.notes(serving, found))
        return _tree(model, requests, whole, stated | {"units": conventions.units}, notes, letters)
    workload, plan = training_report.resolved(model, workload.replaced(phase="train"), training or Training())
    step = training_memory.training_step(model, workload, plan)
    stated = training_report.stated(workload, plan) | {"units": conventions.units}
    notes = (
        f"each term at its own maximum; {step.peak.total:,} bytes are live at the peak",
        *training_report.notes(workload, plan),
        *training_report.of_loop(step, plan, conventions.units),
    )
    return _tree(model, workload, step.terms, stated, notes, LETTERS)


def memory_formula(
    target: str,
    model: Model,
    run: Workload | None,
    conventions: Conventions,
    *,
    training: Training | None,
    serving: Serving | None,
) -> Formula:
    """The closed form of one term, or of what is inside it. What depends on when the peak is stands as a letter."""
    tree = opened_memory(model, run, conventions, training=training, serving=serving)
    node = find_term(tree.twin, target)
    closed = polynomial(node.component.each(bytes_held))
    used = closed.free_symbols
    letters = {letter: meaning for letter, meaning in tree.letters.items() if letter in used}
    return Formula(
        target=target,
        path=node.path,
        of="memory",
        title="bytes",
        closed=closed,
        order=False,
        legend=legend(used, model, tree.run) | letters,
        model=model.described(),
        conventions=tree.conventions,
        notes=tree.notes,
    )


def _tree(
    model: Model,
    run: Workload,
    whole: Component,
    stated: dict[str, object],
    notes: tuple[str, ...],
    letters: dict[str, str],
) -> Tree:
    return Tree(
        model, run, of_numbers(whole).root(), of_formulas(whole).root(), _items, stated, notes, letters, of_terms=True
    )


def _items(cost: Cost) -> list[Item]:
    """The bytes of each tensor: its numbers, and the bytes or bits of each."""
    return [in_bytes(held.name, held.factors, held.bits) for held in cost.held]
