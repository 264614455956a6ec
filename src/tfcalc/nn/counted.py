"""What a module costs on a workload: it runs once on tensors without numbers, and what it did is the tree."""

from __future__ import annotations

from typing import Any

from tfcalc.core.component import Component
from tfcalc.nn.module import Context, Memory, Module
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Shape
from tfcalc.workload import Workload


def counted(module: Module, run: Workload) -> Component:
    """The tree of components of a module that reads token ids.

    What backward computes again is marked later, in the tree (:mod:`tfcalc.core.recomputation`). Attention to another
    model's output finds some that a gradient reaches.
    """
    return counted_by(Counting(), module, run)


def counted_by(trace: Counting, module: Module, run: Workload) -> Component:
    """The same by a trace that may note more than costs."""
    every = 0 if run.early_stop else run.every
    run = run.replaced(recompute="none", early_stop=False)
    ids = trace.given((run.target.batch, run.target.length), "int64", "token ids")
    source = run.source
    memory = Memory(trace.reached((source.batch, source.length, 1)), source)  # a map knows itself how wide rows are
    module(ids, Context(run, run.target, memory=memory, every_whole=every))
    (record,) = trace.record.inside.values()
    return record.component()


def counted_on(module: Module, shape: Shape, *given: Any) -> Component:
    """The tree of a module that reads vectors, on a tensor of this shape that a gradient reaches, and what is given."""
    trace = Counting()
    module(trace.reached(shape), *given)
    (record,) = trace.record.inside.values()
    return record.component()
