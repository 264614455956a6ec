"""A training step on the tape, allocation by allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.execution.programs import program
from tfcalc.tape.allocations import Allocation, AllocationRecorder
from tfcalc.tape.numerics import Numerics

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def allocations(
    tree: Component, model: Model, run: Workload, numerics: Numerics, implementation: str, *, gradients_stay: bool
) -> list[Allocation]:
    """What forward and backward allocate and free, in order, every layer by itself; gradients are there at the end."""
    running = program(model, run, numerics, implementation)
    tape, recorder = running.tape, AllocationRecorder()
    tape.tracker = recorder
    tape.gradients_stay = gradients_stay
    loss = running(tree)
    running.autocast_ends()
    tape.backward(loss)
    recorder.records = False
    return recorder.events
