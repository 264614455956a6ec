"""How many bytes a training step takes: the most that is alive together, when that is, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.measure import SMALLEST_BUFFER, buffer_elements, bytes_held
from tfcalc.core.traced import value_of
from tfcalc.dimensions import check_sizes
from tfcalc.errors import InvalidModel
from tfcalc.held.formats.names import format_named
from tfcalc.held.formats.weights import weights
from tfcalc.held.training.activations import activations
from tfcalc.held.training.adapters import thawed
from tfcalc.held.training.optimizers import optimizer
from tfcalc.held.training.peak import STEP, Phase, Standing, highest, phases
from tfcalc.held.training.placement import Placed, placed
from tfcalc.held.training.recipes import Recipe, recipe
from tfcalc.implementations.training import kept, step, temporary
from tfcalc.questions.alive import TEMPORARY, alive, lump, term
from tfcalc.questions.training_plan import (
    MEGATRON,
    check_alone,
    gradients_stay,
    known_error,
    numerics,
    placement_of,
    stored_as,
    trained,
)
from tfcalc.symbols import remembering
from tfcalc.tape.ledger import WIDTHS, Found

if TYPE_CHECKING:
    from tfcalc.held.plans import Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

ID_BITS, FP32 = 64, 32


class TrainingStep(NamedTuple):
    """A training step's memory: what is alive at the peak, the phases, what is saved for backward, the states."""

    alive: Component
    phases: list[Phase]
    peak: Phase
    saved: Component
    placed: Placed
    buffers: Component
    passing: Component

    @property
    def terms(self) -> Component:
        """Every term by itself, whole; what is temporary is that of the peak."""
        states = [term(state) for state in self.placed.device]
        parts = (
            *states,
            self.buffers,
            self.saved,
            self.placed.gathered,
            term(self.passing._replace(name="temporary")),
        )
        return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def training_step(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """Find the peak of a training step. Raises InvalidModel.

    The states are those of the plan. What is saved, and what is live beside it, is that of the implementation's code,
    run on a tape; sizes remember their formulas, so that all but the temporary has a closed form.
    """
    check_sizes(plan)
    if plan.implementation == MEGATRON:
        from tfcalc.questions.megatron_memory import on_megatron

        return on_megatron(model, run, plan)
    check_alone(plan)
    known_error(model)
    run = run.telling_masks
    by, placement = recipe(plan.recipe), placement_of(plan)
    sized = trained(model.tree(run), plan)
    model_, run_ = remembering(model), remembering(run)
    tree = trained(model_.tree(run_), plan)
    states = states_of(stored_as(model, tree), stored_as(model, sized), plan)
    modules = {node.component.name: node.component.kind for node in sized.walk()}
    saved = activations(kept(tree, model_, run_, numerics(by, plan), plan.implementation), modules)
    buffers = buffers_of(tree, run_, by)
    found = _phases(sized, model, run, plan, states, buffers)
    peak = highest(found)
    passing = states.step if peak.name == STEP else _passing(tree, model_, run_, plan, peak)
    if placement.stage == 3 and not peak.gathered:
        states = states._replace(gathered=Component("gathered", "memory"))
    return TrainingStep(alive(states, saved, buffers, passing, peak), found, peak, saved, states, buffers, passing)


def training_peak(model: Model, run: Workload, plan: Training) -> int:
    """The bytes of the same peak, without what it is made of: several times as fast."""
    if plan.implementation == MEGATRON:
        from tfcalc.questions.megatron_memory import on_megatron

        return on_megatron(model, run, plan).peak.total
    known_error(model)
    run = run.telling_masks
    sized = trained(model.tree(run), plan)
    stored = stored_as(model, sized)
    states, buffers = states_of(stored, stored, plan), buffers_of(sized, run, recipe(plan.recipe))
    return highest(_phases(sized, model, run, plan, states, buffers)).total


def states_of(tree: Component, sized: Component, plan: Training) -> Placed:
    """The states of a tree, as one device holds them; ``sized`` is the same tree of numbers."""
    placement = placement_of(plan)
    by, chosen = recipe(plan.recipe), optimizer(plan.optimizer)
    made = placed(tree, by, chosen, placement, sized=(sized, placement))
    if not plan.frozen_weights:
        return made
    if placement.stage == 3:
        raise InvalidModel(
            f"frozen weights in {plan.frozen_weights} with ZeRO stage 3", "take stage 2, or plain weights"
        )
    dtype = "fp32" if by.weights == FP32 else by.compute
    quantized = weights(thawed(tree), format_named(plan.frozen_weights), dtype=dtype)
    return made._replace(device=made.device._replace(weights=quantized._replace(name="weights")))


def _phases(
    sized: Component, model: Model, run: Workload, plan: Training, states: Placed, buffers: Component
) -> list[Phase]:
    """The step on a tape, over what stands."""
    by, placement = recipe(plan.recipe), placement_of(plan)
    accumulating, stays = plan.accumulate != 1, gradients_stay(by, placement)
    ran = step(sized, model, run, numerics(by, plan), plan.implementation, gradients_stay=not (stays or accumulating))
    scratch = 0 if placement.offload != "none" else bytes_in(states.step)
    gathered, gradients = bytes_in(states.gathered), bytes_in(states.device.gradients)
    return phases(standing_of(states, buffers), gradients, ran.phases, gathered, scratch, there=stays or accumulating)


def standing_of(states: Placed, buffers: Component) -> Standing:
    """What is there all the time, in bytes."""
    device = states.device
    held = (device.weights, device.master, device.optimizer, buffers)
    return Standing(*(bytes_in(each) for each in held))


def bytes_in(tree: Component) -> int:
    """The bytes of all that a tree holds."""
    return value_of(tree.total(bytes_held))


def buffers_of(tree: Component, run: Workload, by: Recipe) -> Component:
    """What is held beside the weights: buffers, and the token ids, 8 bytes each, that are the labels, too."""
    numbers = tree.total(buffer_elements)
    held = [Held("token ids", (run.batch_size, run.seq_len), ID_BITS)]
    if value_of(numbers):
        held.append(Held("buffers", (numbers,), max(by.weights, SMALLEST_BUFFER)))
    return Component("buffers and inputs", "inputs", Cost(held=tuple(held)))


def _passing(tree: Component, model: Model, run: Workload, plan: Training, peak: Phase) -> Component:
    """What is there for a moment at the peak: each kind of tensor by the operation that made it."""
    by, placement = recipe(plan.recipe), placement_of(plan)
    stay = not (gradients_stay(by, placement) or plan.accumulate != 1)
    formats, code = numerics(by, plan), plan.implementation
    seen = temporary(tree, model, run, formats, code, gradients_stay=stay, phase=peak.name, total=peak.live)
    alike: dict[tuple[str, str, int], list[Found]] = {}
    for one in seen:
        alike.setdefault((one.label, one.dtype, value_of(one.elements)), []).append(one)
    parts = [
        Component(name, "memory", Cost(held=(Held(name, (ones[0].elements,), 8 * WIDTHS[dtype]),)), copies=len(ones))
        for (name, dtype, _), ones in sorted(alike.items(), key=lambda item: -item[0][2] * len(item[1]))
        if name
    ]
    tree = Component("temporary", "temporary", parts=tuple(parts))
    rest = peak.temporary - bytes_in(tree)
    return tree._replace(parts=(*parts, lump("workspace", rest, TEMPORARY))) if rest else tree
