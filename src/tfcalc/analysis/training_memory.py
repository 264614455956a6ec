"""How many bytes a training step takes: the largest amount of memory live at once, in which phase, and what it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from tfcalc.analysis.alive import TEMPORARY, alive, lump
from tfcalc.analysis.fine_tuning import OF_ADAPTERS, TUNING, tuned
from tfcalc.analysis.standing import TrainingStep, beside_of, buffers_of, bytes_in, standing_of, states_of
from tfcalc.analysis.training_plan import (
    MEGATRON,
    check_alone,
    check_code,
    check_loops,
    check_offloaded,
    check_plan,
    code_of,
    gradients_stay,
    known_error,
    numerics,
    piece_of,
    placement_of,
    stored_as,
    trained,
    trained_in,
    units,
)
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import formula_of, value_of
from tfcalc.defaults import resolve_training
from tfcalc.errors import UsageError
from tfcalc.execution.training import Step, Trainer, envelope, kept, step
from tfcalc.footprint.plans import TRAINER
from tfcalc.footprint.training.activations import activations
from tfcalc.footprint.training.beside import Beside, outputs
from tfcalc.footprint.training.optimizers import optimizer
from tfcalc.footprint.training.peak import STEP, Phase, highest, phases
from tfcalc.footprint.training.placement import Placed
from tfcalc.footprint.training.precisions import precision
from tfcalc.footprint.training.states import step_alone
from tfcalc.footprint.training.stored import as_stored, outer_modules
from tfcalc.number_formats import WIDTHS
from tfcalc.symbols import remembering
from tfcalc.tape.memory_tracker import LENT, Found, MemoryTracker, PeakRecorder
from tfcalc.tape.tape import Stepped
from tfcalc.tape.value import Leaf

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Training
    from tfcalc.footprint.training.reserved import Reserved
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def training_step(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """Find the peak of a training step. Raises InvalidModel.

    The states are those of the plan. What is saved, and what is live beside it, is that of the implementation's code,
    run on a tape; sizes remember their formulas, so that all but the temporary has a closed form.
    """
    run, plan = resolve_training(model, run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        return _on_megatron(model, run, plan)
    check_alone(model, plan)
    known_error(model)
    check_loops(model, run)
    check_offloaded(run, plan)
    by, placement = precision(plan.precision), placement_of(plan)
    peaks = peaks_of(model, run, plan)
    model_, run_ = piece_of(remembering(model), run, plan), remembering(run)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    tree = trained(model_.tree(run_), plan)
    states = states_of(stored_as(model, tree), stored_as(model, sized), plan)
    modules = {node.component.name: node.component.kind for node in sized.walk()}
    needed = kept(tree, model_, run_, numerics(by, plan), code_of(plan), trainer_of(tree, plan))
    saved, on_host = (
        activations((each for each in needed if each.on_host == hosted), modules) for hosted in (False, True)
    )
    recorder = PeakRecorder()
    ran = peaks.steps[peaks.key(run, plan)] = _step(tree, model_, run_, plan, recorder)
    beside = beside_of(buffers_of(tree, run_, by), plan, ran.returned)
    found = _phases(plan, states, beside, ran)
    peak = highest(found)
    passing = states.step if peak.name == STEP else _passing(recorder, peak)
    gradients = states.device.gradients
    if plan.optimizer_in_backward:
        gradients = Component("gradients", "memory", parts=tuple(_alike(recorder.gradients_at(peak.name))))
    if placement.stage == 3 and not peak.gathered:
        states = states._replace(gathered=Component("gathered", "memory"))
    elif placement.by_units:
        states = states._replace(gathered=_gathered(recorder, peak))
    live = alive(states, gradients, saved, beside, passing, peak)
    logits = bytes_in(outputs(ran.returned))
    return TrainingStep(live, found, peak, saved, states, beside, passing, on_host, logits)


def training_peak(model: Model, run: Workload, plan: Training) -> int:
    """The bytes of the same peak, without what it is made of: several times as fast."""
    return Peaks(model).peak(run, plan)


def live_bytes(model: Model, run: Workload, plan: Training) -> list[Polynomial]:
    """All that may be the peak of a step of this run, whose sizes remember what they are, as closed forms in them."""
    run, plan = resolve_training(model, run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        raise UsageError("a sweep of training memory runs no Megatron-LM", "leave --backend megatron out")
    check_alone(model, plan)
    known_error(model)
    check_loops(model, run)
    check_offloaded(run, plan)
    model = piece_of(model, run, plan)
    sized = trained(model.tree(run), plan)
    stored = stored_as(model, sized)
    states, buffers = states_of(stored, stored, plan), buffers_of(sized, run, precision(plan.precision))
    stay, scratch = _gradients_stay(plan), 0 if plan.offload != "none" else bytes_in(states.step)
    formats = numerics(precision(plan.precision), plan)
    moments, returned = envelope(sized, model, run, formats, code_of(plan), trainer_of(sized, plan))
    gradients, base = bytes_in(states.device.gradients), sum(standing_of(states, beside_of(buffers, plan, returned)))
    there = base + (gradients if stay else 0) + bytes_in(states.gathered)
    forms = [formula_of(there) + each for each in moments]
    return forms if plan.optimizer_in_backward else [*forms, formula_of(base + gradients + scratch)]


class Peaks:
    """The bytes of the peaks of one model on many workloads and plans; what the tape says of each is remembered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.steps: dict[tuple[Workload, Training, bool], Step] = {}
        self.states: dict[Training, Placed] = {}
        """Of each plan; no workload changes them."""
        self._trees: dict[tuple[object, ...], Component] = {}
        """What is trained of the model, by workload and by how it is tuned."""

    def peak(self, run: Workload, plan: Training) -> int:
        """The bytes of the peak. Raises InvalidModel."""
        run, plan = resolve_training(self.model, run, plan)
        check_code(self.model, run, plan)
        if plan.backend == MEGATRON:
            return _on_megatron(self.model, run, plan).peak.total
        known_error(self.model)
        check_loops(self.model, run)
        check_offloaded(run, plan)
        sized, states, buffers = self._standing(run, plan)
        key = self.key(run, plan)
        if key not in self.steps:
            self.steps[key] = _step(sized, piece_of(self.model, run, plan), run, plan)
        ran = self.steps[key]
        return highest(_phases(plan, states, beside_of(buffers, plan, ran.returned), ran)).total

    def key(self, run: Workload, plan: Training) -> tuple[Workload, Training, bool]:
        """What the tape sees of them."""
        return run, plan.replaced(**off_tape(plan)), _gradients_stay(plan)

    def least(self, run: Workload, plan: Training) -> int:
        """The bytes of the optimizer's step alone, which no peak is below: nothing runs on a tape for it.

        Where backward takes it, those of the states.
        """
        run, plan = resolve_training(self.model, run, plan)
        check_code(self.model, run, plan)
        if plan.backend == MEGATRON:
            return _on_megatron(self.model, run, plan).peak.total
        _, states, buffers = self._standing(run, plan)
        if plan.optimizer_in_backward:
            return sum(standing_of(states, Beside(buffers)))
        return highest(_phases(plan, states, Beside(buffers), Step({}, 0))).total

    def runs_in(self, run: Workload, plan: Training, memory: int) -> bool:
        """Whether the caching allocator can run it in so many bytes, giving back what it does not use."""
        from tfcalc.footprint.allocator.caching import OutOfMemory

        try:
            self.reserved(run, plan, memory)
        except OutOfMemory:
            return False
        return True

    def reserved(self, run: Workload, plan: Training, limit: int | None = None) -> Reserved:
        """What the caching allocator reserves for it, where the card has so many bytes. Raises OutOfMemory."""
        from tfcalc.footprint.allocator.settings import Settings  # a simulation that few answers show
        from tfcalc.footprint.training.reserved import reserved
        from tfcalc.tape.allocations import AllocationRecorder

        run, plan = resolve_training(self.model, run, plan)
        sized, states, buffers = self._standing(run, plan)
        recorder = AllocationRecorder()
        model = piece_of(self.model, run, plan)
        ran = _step(sized, model, run, plan, recorder, ends_alone=False)
        if plan.offload != "none":
            states = states._replace(step=Component("step", "memory"))
        beside = beside_of(buffers, plan, ran.returned)
        return reserved(states, beside, recorder.events, Settings(limit=limit), there=_gradients_stay(plan))

    def _standing(self, run: Workload, plan: Training) -> tuple[Component, Placed, Component]:
        check_plan(plan)
        asked = run, *(getattr(plan, name) for name in OF_TREE)
        if asked not in self._trees:
            self._trees[asked] = tuned(piece_of(self.model, run, plan).tree(run), plan)
        sized = self._trees[asked]
        if plan not in self.states:
            stored = stored_as(self.model, sized)
            self.states[plan] = states_of(stored, stored, plan)
        return sized, self.states[plan], buffers_of(sized, run, precision(plan.precision))


@lru_cache(maxsize=1)
def peaks_of(model: Model, _run: Workload, _plan: Training) -> Peaks:
    """Those of one question, which is resolved: what its report has found need not be found again for its verdict."""
    return Peaks(model)


def _on_megatron(model: Model, run: Workload, plan: Training) -> TrainingStep:
    from tfcalc.analysis.megatron_memory import on_megatron  # a description of its own, which few ask for

    return on_megatron(model, run, plan)


ON_HOST = {"optimizer": "none", "offload": "none", "grad_accum": 1, "capability": "", "loop": TRAINER}
OFF_TAPE = {**ON_HOST, "zero": "0", "gpus": 1, "layout": "flat"}
"""Fields of a plan that decide on the states alone, once it is known whether gradients stay; the former with FSDP."""


OF_TREE = (*TUNING, *OF_ADAPTERS, "tensor_parallel", "sequence_parallel")
"""Those that decide what of the model is trained, and which piece of it a device has."""


def off_tape(plan: Training) -> dict[str, object]:
    """The same, but the optimizer where it runs in backward."""
    fields = ON_HOST if placement_of(plan).by_units else OFF_TAPE
    return {name: value for name, value in fields.items() if name != "optimizer" or not plan.optimizer_in_backward}


def stepped(tree: Component, plan: Training) -> Stepped | None:
    """What the step of a parameter needs, if it is in backward."""
    if not plan.optimizer_in_backward:
        return None
    by, chosen, outer = precision(plan.precision), optimizer(plan.optimizer), outer_modules(tree)

    def needed(leaf: Leaf) -> tuple[Held, ...]:
        return step_alone(as_stored(leaf.name, leaf.shape or (), outer), by, chosen)

    return needed


def _gradients_stay(plan: Training) -> bool:
    """Whether gradients are there all the time: in buffers of their own, or to be added up."""
    buffers = gradients_stay(trained_in(plan), placement_of(plan)) or plan.gradient_as_bucket_view
    return buffers or plan.grad_accum != 1


def _step(
    tree: Component,
    model: Model,
    run: Workload,
    plan: Training,
    tracker: MemoryTracker | None = None,
    *,
    ends_alone: bool = True,
) -> Step:
    """The step on a tape."""
    formats = numerics(precision(plan.precision), plan)
    return step(tree, model, run, formats, code_of(plan), trainer_of(tree, plan), tracker, ends_alone=ends_alone)


def trainer_of(tree: Component, plan: Training) -> Trainer:
    """What the plan says about gradients, about what is saved, and about weights that are elsewhere."""
    return Trainer(not _gradients_stay(plan), stepped(tree, plan), plan.offload_activations, units(tree, plan))


def _phases(plan: Training, states: Placed, beside: Beside, ran: Step) -> list[Phase]:
    """What ran on the tape, over what stands."""
    scratch = 0 if plan.offload != "none" else bytes_in(states.step)
    gathered, gradients = bytes_in(states.gathered), bytes_in(states.device.gradients)
    standing = standing_of(states, beside)
    there, in_backward = _gradients_stay(plan), plan.optimizer_in_backward
    return phases(standing, gradients, ran.phases, gathered, scratch, there=there, stepped=in_backward)


def _passing(recorder: PeakRecorder, peak: Phase) -> Component:
    """What is there for a moment at the peak: each kind of tensor by the operation that made it."""
    parts = tuple(_alike(one for one in recorder.passing(peak.name) if one.label not in LENT))
    tree = Component("temporary", "temporary", parts=parts)
    rest = peak.temporary - bytes_in(tree)
    return tree._replace(parts=(*parts, lump("workspace", rest, TEMPORARY))) if rest else tree


def _gathered(recorder: PeakRecorder, peak: Phase) -> Component:
    """What is there at the peak for other devices' sake."""
    parts = _alike(one for one in recorder.passing(peak.name) if one.label in LENT)
    return Component("gathered", "memory", parts=tuple(parts))


def _alike(found: Iterable[Found]) -> Iterator[Component]:
    """Each kind of tensor by the operation that made it."""
    alike: dict[tuple[str, str, int], list[Found]] = {}
    for one in found:
        alike.setdefault((one.label, one.dtype, value_of(one.elements)), []).append(one)
    for (name, dtype, _), ones in sorted(alike.items(), key=lambda item: -item[0][2] * len(item[1])):
        if name:
            held = Held(name, (ones[0].elements,), 8 * WIDTHS[dtype])
            yield Component(name, "memory", Cost(held=(held,)), copies=len(ones))
