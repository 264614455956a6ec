"""Memory of a training step, term by term: with closed forms, or in plain numbers, each found when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import Guards, value_of
from tfcalc.defaults import resolve_training
from tfcalc.errors import UsageError
from tfcalc.model import guarding, remembering
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import LENT, Found, PeakRecorder
from tfcalc.tape.moments import SizedRecorder
from tfcalc.training.peaks import PeakForm, Peaks, constant_terms, on_megatron, phases_of, step_of, trainer_of
from tfcalc.training.plan_checks import (
    MEGATRON,
    check_alone,
    check_code,
    check_loops,
    check_offloaded,
    code_of,
    known_error,
    numerics,
    piece_of,
    placement_of,
    stored_as,
    trained,
)
from tfcalc.training.precisions import precision
from tfcalc.training.states import NOTHING, outputs
from tfcalc.training.step import activations, envelope, kept
from tfcalc.training.step_terms import (
    STEP,
    TEMPORARY,
    Phase,
    TrainingStep,
    alive,
    beside_of,
    buffers_of,
    bytes_in,
    highest,
    lump,
    states_of,
)

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.training.states import Overheads, Placed
    from tfcalc.training.step import StepMemory
    from tfcalc.training.step_terms import Step
    from tfcalc.workload import Workload


def training_step(model: Model, run: Workload, plan: Training, peaks: Peaks | None = None) -> TrainingStep:
    """Find the peak of a training step, and tell the ``peaks`` of the model what has run. Raises InvalidModel.

    The states are those of the plan. What is saved, and what is live beside it, is that of the implementation's code,
    run on a tape; sizes remember their formulas, so that all but the temporary has a closed form.
    """
    run, plan = resolve_training(model, run, plan) if peaks is None else peaks.resolved(run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        return on_megatron(model, run, plan)
    check_step(model, run, plan)
    by, placement = precision(plan.precision), placement_of(plan)
    guards, recorder = Guards(), SizedRecorder()
    run_ = guarding(run, guards)
    model_ = piece_of(remembering(model), run_, plan)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    tree = trained(model_.tree(run_), plan)
    states = states_of(stored_as(model, tree), stored_as(model, sized), plan)
    ran, buffers = step_of(tree, model_, run_, plan, recorder), buffers_of(tree, run_, by)
    stood = constant_terms(states, buffers, plan, ran.returned)
    guards.close()
    if peaks is not None:
        peaks.knows(run, plan, ran, recorder.noted)
        peaks.holds(run, plan, PeakForm(guards, stood, recorder.moments))
    saved, on_host = saved_of(tree, model_, run_, plan)
    beside = beside_of(buffers, plan, ran.returned)
    found = phases_of(plan, states, beside, ran)
    peak = highest(found)
    passing = states.step if peak.name == STEP else _passing(recorder, peak)
    gradients = states.device.gradients
    if plan.optimizer_in_backward:
        gradients = Component("gradients", "memory", parts=tuple(_by_operation(recorder.gradients_at(peak.name))))
    if placement.stage == 3 and not peak.gathered:
        states = states._replace(gathered=Component("gathered", "memory"))
    elif placement.by_units:
        states = states._replace(gathered=_gathered(recorder, peak))
    live = alive(states, gradients, saved, beside, passing, peak)
    logits = bytes_in(outputs(ran.returned))
    return TrainingStep(live, found, peak, saved, states, beside, passing, on_host, logits)


def check_step(model: Model, run: Workload, plan: Training) -> None:
    """Raise InvalidModel or UsageError where no step of this plan is known to the tape."""
    check_alone(model, plan)
    known_error(model)
    check_loops(model, run)
    check_offloaded(run, plan)


def saved_of(tree: Component, model: Model, run: Workload, plan: Training) -> tuple[Component, Component]:
    """What forward saves for backward: on the device, and in the host's memory."""
    modules = {node.component.name: node.component.kind for node in tree.walk()}
    needed = kept(tree, model, run, numerics(precision(plan.precision), plan), code_of(plan), trainer_of(tree, plan))
    on_device, on_host = ([each for each in needed if each.on_host == hosted] for hosted in (False, True))
    return activations(on_device, modules), activations(on_host, modules)


def live_bytes(model: Model, run: Workload, plan: Training) -> list[Polynomial]:
    """All that may be the peak of a step of this run, whose sizes remember what they are, as closed forms in them."""
    run, plan = resolve_training(model, run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        raise UsageError("a sweep of training memory runs no Megatron-LM", "leave --backend megatron out")
    check_step(model, run, plan)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    stored = stored_as(model, sized)
    states, buffers = states_of(stored, stored, plan), buffers_of(sized, run, precision(plan.precision))
    formats = numerics(precision(plan.precision), plan)
    moments, returned = envelope(sized, model, run, formats, code_of(plan), trainer_of(sized, plan))
    there, step = constant_terms(states, buffers, plan, returned)
    forms = [there + each for each in moments]
    return forms if step is None else [*forms, step]


def _passing(recorder: PeakRecorder, peak: Phase) -> Component:
    """What is there for a moment at the peak: each kind of tensor by the operation that made it."""
    parts = tuple(_by_operation(one for one in recorder.passing(peak.name) if one.label not in LENT))
    tree = Component("temporary", "temporary", parts=parts)
    rest = peak.temporary - bytes_in(tree)
    return tree._replace(parts=(*parts, lump("workspace", rest, TEMPORARY))) if rest else tree


def _gathered(recorder: PeakRecorder, peak: Phase) -> Component:
    """What is there at the peak for other devices' sake."""
    parts = _by_operation(one for one in recorder.passing(peak.name) if one.label in LENT)
    return Component("gathered", "memory", parts=tuple(parts))


def _by_operation(found: Iterable[Found]) -> Iterator[Component]:
    """Each kind of tensor by the operation that made it."""
    alike: dict[tuple[str, str, int], list[Found]] = {}
    for one in found:
        alike.setdefault((one.label, one.dtype, value_of(one.elements)), []).append(one)
    for (name, dtype, _), ones in sorted(alike.items(), key=lambda item: -item[0][2] * len(item[1])):
        if name:
            held = Held(name, (ones[0].elements,), 8 * WIDTHS[dtype])
            yield Component(name, "memory", Cost(held=(held,)), copies=len(ones))


class TrainingNumbers:
    """A step like that of :func:`~tfcalc.training.step_breakdown.training_step`, several times as fast.

    For the states nothing runs; for the peak a step does, and for what is saved a layer of each kind. Raises
    InvalidModel.
    """

    def __init__(self, model: Model, run: Workload, plan: Training, peaks: Peaks) -> None:
        self.model, self.run, self.plan = model, run, plan
        self.peaks = peaks
        check_step(model, run, plan)

    @property
    def placed(self) -> Placed:
        """The states."""
        return self._standing[1]

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        return highest(self.phases)

    @property
    def phases(self) -> list[Phase]:
        """All of them."""
        return self._phases[0]

    @property
    def beside(self) -> Overheads:
        """What stands beside the states."""
        return self._phases[1]

    @property
    def saved(self) -> Component:
        """What is kept for backward."""
        return self._saved[0]

    @property
    def saved_on_host(self) -> Component:
        """The same in the host's memory."""
        return self._saved[1] if self.plan.offload_activations else NOTHING

    @property
    def logits(self) -> int:
        """The bytes of those that the model returns."""
        return bytes_in(outputs(self._ran.returned))

    @cached_property
    def _standing(self) -> tuple[Component, Placed, Component]:
        return self.peaks.standing(self.run, self.plan)

    @property
    def _ran(self) -> StepMemory:
        return self.peaks.step(self.run, self.plan, noting=True)

    @cached_property
    def _phases(self) -> tuple[list[Phase], Overheads]:
        return self.peaks.phases(self.run, self.plan, self._ran)

    @cached_property
    def _saved(self) -> tuple[Component, Component]:
        piece = piece_of(self.model, self.run, self.plan)
        return saved_of(self._standing[0], piece, self.run, self.plan)


def training_numbers(model: Model, run: Workload, plan: Training, peaks: Peaks) -> Step:
    """The numbers of a step, whose allocations are noted when it runs. Raises InvalidModel."""
    run, plan = peaks.resolved(run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        return on_megatron(model, run, plan)
    return TrainingNumbers(model, run, plan, peaks)
