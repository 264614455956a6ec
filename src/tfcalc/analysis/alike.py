"""Training steps in which the same is decided: one has run, and holds at every size at which the others would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.analysis.fine_tuning import tuned
from tfcalc.analysis.standing import beside_of, buffers_of, bytes_in, standing_of, states_of
from tfcalc.analysis.training_plan import piece_of, stays, stored_as
from tfcalc.core.component import Component
from tfcalc.core.guarded import Guards
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import formula_of
from tfcalc.symbols import guarding
from tfcalc.tape.moments import Moments, SizedTracker
from tfcalc.training.precisions import precision

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.tape.memory_tracker import Found
    from tfcalc.training.states import Placed
    from tfcalc.workload import Workload


class Stands(NamedTuple):
    """Bytes beside those on the tape as closed forms: while forward and backward run, and all of the optimizer's step.

    There is no such step where backward takes it.
    """

    there: Polynomial
    step: Polynomial | None


def stands(states: Placed, buffers: Component, plan: Training, returned: Sequence[Found]) -> Stands:
    """What stands, where the model returns this."""
    gradients, base = bytes_in(states.device.gradients), sum(standing_of(states, beside_of(buffers, plan, returned)))
    there = base + (gradients if stays(plan) else 0) + bytes_in(states.gathered)
    scratch = 0 if plan.offload != "none" else bytes_in(states.step)
    step = None if plan.optimizer_in_backward else formula_of(base + gradients + scratch)
    return Stands(formula_of(there), step)


class Alike(NamedTuple):
    """The steps that decide as one did that has run: what that was, what stands in all of them, and what they make."""

    guards: Guards
    stands: Stands
    moments: Moments

    def peak(self, sizes: Mapping[str, int]) -> int | None:
        """The bytes of the peak, where letters stand for these sizes; None where something is decided otherwise."""
        return self.at(sizes) if self.guards.hold_at(sizes) else None

    def at(self, sizes: Mapping[str, int]) -> int:
        """The same wherever that is: where something is decided otherwise, a guess."""
        running: int = self.stands.there.at(sizes) + self.moments.most(sizes)
        return running if self.stands.step is None else max(running, self.stands.step.at(sizes))

    def least(self, sizes: Mapping[str, int]) -> int:
        """What no peak is below, which the states decide: of a step that decides otherwise, a guess."""
        stood: int = (self.stands.there if self.stands.step is None else self.stands.step).at(sizes)
        return stood


def alike(whole: Model, run: Workload, plan: Training) -> Alike:
    """Run a step of a plan that was resolved, with sizes that remember what is decided by them."""
    from tfcalc.analysis.peaks import step_of

    guards, tracker = Guards(), SizedTracker()
    run = guarding(run, guards)
    model = piece_of(whole, run, plan)
    tree = tuned(model.tree(run), plan)
    stored = stored_as(model, tree)
    states, buffers = states_of(stored, stored, plan), buffers_of(tree, run, precision(plan.precision))
    ran = step_of(tree, model, run, plan, tracker)
    return Alike(guards, stands(states, buffers, plan, ran.returned), tracker.moments)
