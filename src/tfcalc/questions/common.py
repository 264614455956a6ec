"""What every question does first: check, build the tree, and build its symbolic twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.conventions import Conventions
from tfcalc.core.component import Component, Measure, Node
from tfcalc.core.measure import matmul_flops, params
from tfcalc.dimensions import check_sizes
from tfcalc.errors import InvalidModel
from tfcalc.printable import quoted
from tfcalc.report import Entry, breakdown
from tfcalc.symbols import legend, with_symbols
from tfcalc.workload import DEFAULT_LENGTH, Workload

if TYPE_CHECKING:
    from tfcalc.held.plans import Serving, Training
    from tfcalc.model import Model

ALWAYS: Mapping[str, Measure] = {"params": params, "flops": matmul_flops}
"""What stands at every component of the JSON, whichever question was asked."""


class Subject(NamedTuple):
    """A model on a workload, as a tree of numbers and as the same tree of symbols."""

    model: Model
    run: Workload
    node: Node
    twin: Node

    def entry(self, measure: Measure, extras: Mapping[str, Measure], depth: int | None) -> Entry:
        """The breakdown of one quantity, down to the blocks, or as far as any ``depth`` may reach."""
        return breakdown(self.node, self.twin, measure, {**ALWAYS, **extras}, inside_blocks=depth is not None)

    def legend(self, entry: Entry) -> dict[str, str]:
        """What the letters mean that stand in this breakdown."""
        return legend(frozenset().union(*(part.formula.free_symbols for part in entry.walk())), self.model, self.run)


def default_run(model: Model) -> Workload:
    """One sequence of 512 tokens, or of as many as the model can read."""
    longest = model.longest
    shorter = isinstance(longest, int) and longest < DEFAULT_LENGTH
    return Workload(seq_len=longest) if longest is not None and shorter else Workload()


def asked_run(model: Model, run: Workload | None) -> Workload:
    """The workload that was asked for, or the default; where one token is decoded, over as many as are asked for."""
    run = run or default_run(model)
    return run.replaced(cached=run.seq_len) if run.decoding and run.cached is None else run


def run_tree(model: Model, run: Workload) -> Component:
    """The model's tree on this workload, with what backward computes again marked."""
    root = model.tree(run)
    if not run.training:
        return root
    from tfcalc.core.recomputation import as_run, recomputing

    root = as_run(root) if run.convolutions == "run" else root
    return recomputing(root, run.recompute, run.every, early_stop=run.early_stop)


def check_arguments(model: Model, run: Workload | None, conventions: Conventions | None) -> None:
    """Raise InvalidModel where one of these is something else, or holds what is no size and no known word."""
    if not hasattr(model, "tree"):
        raise InvalidModel(f"{quoted(model)} is not a model", "give tfcalc.Transformer(…), or tfcalc.load(name)")
    if not isinstance(run, Workload | None):
        raise InvalidModel(f"{quoted(run)} is not a workload", "give tfcalc.Workload(…)")
    if not isinstance(conventions, Conventions | None):
        raise InvalidModel(f"{quoted(conventions)} are no conventions", "give tfcalc.Conventions(…)")
    for given in (run, conventions):
        if given is not None:
            check_sizes(given)


def check_plans(training: Training | None, serving: Serving | None) -> None:
    """The same for the plans that memory is asked by."""
    from tfcalc.held.plans import Serving, Training

    for given, kind in ((training, Training), (serving, Serving)):
        if not isinstance(given, kind | None):
            raise InvalidModel(f"{quoted(given)} is no plan", f"give tfcalc.{kind.__name__}(…)")
        if given is not None:
            check_sizes(given)


def subject(model: Model, run: Workload | None, conventions: Conventions | None = None) -> Subject:
    """Check the model against the workload and build both trees. Raises InvalidModel."""
    check_arguments(model, run, conventions)
    run = asked_run(model, run)
    model.check(run)
    root, twin = run_tree(model, run), run_tree(with_symbols(model), with_symbols(run))
    return Subject(model, run, root.root(), twin.root())
