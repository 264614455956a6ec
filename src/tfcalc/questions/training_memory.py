"""How many bytes a training step takes: the most that is alive together, when that is, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.configs.published import Published
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.measure import SMALLEST_BUFFER, buffer_elements, bytes_held
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import Traced, value_of
from tfcalc.dimensions import check_sizes
from tfcalc.errors import InvalidModel
from tfcalc.families.transformer import Transformer
from tfcalc.implementations.transformers.measured import error_of
from tfcalc.held.formats.names import format_named
from tfcalc.held.formats.weights import weights
from tfcalc.held.training import megatron
from tfcalc.held.training.activations import activations
from tfcalc.held.training.adapters import Adapter, adapted, frozen_where, thawed
from tfcalc.held.training.megatron_sizes import Placement as Devices
from tfcalc.held.training.megatron_sizes import remembered, sizes_of
from tfcalc.held.training.optimizers import optimizer
from tfcalc.held.training.parallel import on_device
from tfcalc.held.training.peak import STEP, Phase, Standing, highest, phases
from tfcalc.held.training.placement import Placed, placed
from tfcalc.held.training.recipes import Recipe, recipe
from tfcalc.held.training.sharding import Placement
from tfcalc.held.training.stored import packed
from tfcalc.implementations.training import kept, step, temporary
from tfcalc.symbols import remembering
from tfcalc.tape.ledger import WIDTHS, Found, Moment
from tfcalc.tape.operations import Numerics

if TYPE_CHECKING:
    from tfcalc.held.plans import Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

FORMATS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""What torch calls them."""
ID_BITS, FP32 = 64, 32
MEGATRON = "megatron"
TEMPORARY, RELEASED, MISSING = "τ", "ρ", "μ"
LETTERS = {
    TEMPORARY: "bytes for a moment at the peak that no tensor holds",
    RELEASED: "bytes of activations that backward has released by the peak, or forward has yet to save",
    MISSING: "bytes of gradients that backward has yet to make",
}
"""What has no closed form, for it depends on when the peak is."""


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
        states = [_term(state) for state in self.placed.device]
        parts = (
            *states,
            self.buffers,
            self.saved,
            self.placed.gathered,
            _term(self.passing._replace(name="temporary")),
        )
        return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def training_step(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """Find the peak of a training step. Raises InvalidModel.

    The states are those of the plan. What is saved, and what is live beside it, is that of the implementation's code,
    run on a tape; sizes remember their formulas, so that all but the temporary has a closed form.
    """
    check_sizes(plan)
    if plan.implementation == MEGATRON:
        return _megatron(model, run, plan)
    check_alone(plan)
    known_error(model)
    by, placement = recipe(plan.recipe), placement_of(plan)
    sized = trained(model.tree(run), plan)
    model_, run_ = remembering(model), remembering(run)
    tree = trained(model_.tree(run_), plan)
    states = _states(stored_as(model, tree), stored_as(model, sized), plan)
    modules = {node.component.name: node.component.kind for node in sized.walk()}
    saved = activations(kept(tree, model_, run_, numerics(by, plan), plan.implementation), modules)
    buffers = _buffers(tree, run_, by)
    found = _phases(sized, model, run, plan, states, buffers)
    peak = highest(found)
    passing = states.step if peak.name == STEP else _passing(tree, model_, run_, plan, peak)
    if placement.stage == 3 and not peak.gathered:
        states = states._replace(gathered=Component("gathered", "memory"))
    return TrainingStep(_alive(states, saved, buffers, passing, peak), found, peak, saved, states, buffers, passing)


def training_peak(model: Model, run: Workload, plan: Training) -> int:
    """The bytes of the same peak, without what it is made of: several times as fast."""
    if plan.implementation == MEGATRON:
        return _megatron(model, run, plan).peak.total
    known_error(model)
    sized = trained(model.tree(run), plan)
    stored = stored_as(model, sized)
    states, buffers = _states(stored, stored, plan), _buffers(sized, run, recipe(plan.recipe))
    return highest(_phases(sized, model, run, plan, states, buffers)).total


def stored_as(model: Model, tree: Component) -> Component:
    """The tensors as the code has them: PyTorch's attention keeps the maps of queries, keys and values in one."""
    return packed(tree) if isinstance(model, Transformer) else tree


def _states(tree: Component, sized: Component, plan: Training) -> Placed:
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
    device = states.device
    standing = Standing(_bytes(device.weights), _bytes(device.master), _bytes(device.optimizer), _bytes(buffers))
    scratch = 0 if placement.offload != "none" else _bytes(states.step)
    gathered, gradients = _bytes(states.gathered), _bytes(device.gradients)
    return phases(standing, gradients, ran.phases, gathered, scratch, there=stays or accumulating)


def _bytes(tree: Component) -> int:
    return value_of(tree.total(bytes_held))


def known_error(model: Model) -> float:
    """How far the family's saved activations were from PyTorch's. Raises InvalidModel where nothing is known of it."""
    return error_of(model.family.model_type) if isinstance(model, Published) else 0.0


def check_alone(plan: Training) -> None:
    """Raise InvalidModel where layers are to be shared by code that is not Megatron's."""
    for name, value in (("tensor", plan.tensor), ("pipeline", plan.pipeline), ("interleave", plan.interleave)):
        if value != 1:
            raise InvalidModel(f"{name} {value} with implementation {plan.implementation!r}", "take megatron")
    if plan.sequence_parallel:
        raise InvalidModel(f"sequence parallel with implementation {plan.implementation!r}", "take megatron")


def _megatron(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """A device of Megatron-LM: its share of the states, and of the activations that the paper lists.

    The paper knows no temporary, so none is counted. The peak is at the start of backward.
    """
    model_, run_, plan_ = remembering(model), remembering(run), remembering(plan)
    at = Devices(plan_.tensor, plan.sequence_parallel, plan_.pipeline, plan_.interleave)
    saved = megatron.activations(
        remembered(sizes_of(model, run.seq_len)),
        batch=run_.batch_size,
        seq=run_.seq_len,
        tensor=at.tensor,
        sequence_parallel=plan.sequence_parallel,
        recompute=run.recompute,
        pipeline=at.pipeline,
        interleave=at.interleave,
        dropout=run.drops,
    )
    by, placement = recipe(plan.recipe), placement_of(plan)
    sized = on_device(trained(model.tree(run), plan), Devices(plan.tensor, pipeline=plan.pipeline))
    tree = on_device(trained(model_.tree(run_), plan), at)
    states, buffers = _states(tree, sized, plan), _buffers(tree, run_, by)
    device, kept_ = states.device, _bytes(saved)
    moment = Moment()
    moment.total = moment.saved = kept_
    standing = Standing(_bytes(device.weights), _bytes(device.master), _bytes(device.optimizer), _bytes(buffers))
    scratch = 0 if placement.offload != "none" else _bytes(states.step)
    stays = gradients_stay(by, placement) or plan.accumulate != 1
    found = phases(
        standing, _bytes(device.gradients), {"backward": moment}, _bytes(states.gathered), scratch, there=stays
    )
    peak = highest(found)
    passing = states.step if peak.name == STEP else Component("temporary", "temporary")
    return TrainingStep(_alive(states, saved, buffers, passing, peak), found, peak, saved, states, buffers, passing)


def trained(tree: Component, plan: Training) -> Component:
    """The model's tree with adapters beside it, and with what is not trained frozen."""
    if plan.lora is not None:
        tree = adapted(tree, Adapter(plan.lora, _listed(plan.lora_targets), plan.dora))
    return frozen_where(tree, *_listed(plan.freeze)) if plan.freeze else tree


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def placement_of(plan: Training) -> Placement:
    """Where the states are."""
    return Placement(int(plan.zero), plan.devices, plan.layout, plan.offload)


def gradients_stay(by: Recipe, placement: Placement) -> bool:
    """Whether gradients have buffers that are there all the time: shared out, or of more bits than the weights."""
    return placement.stage >= 2 or by.gradients != by.weights


def numerics(by: Recipe, plan: Training) -> Numerics:
    """The formats that the tape runs in.

    As recorded, that is on a CPU, a LayerNorm of 16-bit weights keeps its statistics in 16 bits, and the rows of masks
    are as long as they are; CUDA keeps fp32 statistics, and fills rows up to a multiple of 8.
    """
    compute = FORMATS[by.compute]
    formats = Numerics("float32", compute) if by.autocast else Numerics(compute)
    if plan.device == "recorded":
        kept_in = None if formats.weights == "float32" else formats.weights
        formats = formats._replace(statistics=kept_in, aligned_masks=False, traced=True)
    return formats._replace(packed=bool(plan.frozen_weights))


def _buffers(tree: Component, run: Workload, by: Recipe) -> Component:
    """What is held beside the weights: buffers, and the token ids, 8 bytes each, that are the labels, too."""
    numbers = tree.total(buffer_elements)
    held = [Held("token ids", (run.batch_size, run.seq_len), ID_BITS)]
    if value_of(numbers):
        held.append(Held("buffers", (numbers,), max(by.weights, SMALLEST_BUFFER)))
    return Component("buffers and inputs", "memory", Cost(held=tuple(held)))


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
    rest = peak.temporary - _bytes(tree)
    return tree._replace(parts=(*parts, _lump("workspace", rest, TEMPORARY))) if rest else tree


def _alive(states: Placed, saved: Component, buffers: Component, passing: Component, peak: Phase) -> Component:
    """What is alive at the peak, term by term; what has been released, or is yet to come, is taken off."""
    whole = states.device
    parts = [*(_term(state) for state in (whole.weights, whole.master, whole.optimizer)), buffers]
    if peak.gradients:
        parts.append(_less(_term(whole.gradients), peak.gradients, MISSING, "not made yet"))
    if peak.activations:
        parts.append(_less(saved, peak.activations, RELEASED, "not there then"))
    if peak.gathered:
        parts.append(states.gathered)
    if peak.temporary:
        parts.append(_term(passing._replace(name="temporary")))
    return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def _term(state: Component) -> Component:
    """A term as a whole: its parts are shown where one looks deeper."""
    return state._replace(kind=state.name)


def _less(term: Component, there: int, letter: str, name: str) -> Component:
    """A term of which only so much is there at the peak."""
    missing = value_of(term.total(bytes_held)) - there
    if not missing:
        return term
    parts = term.parts if term.parts else (term._replace(name="all"),)
    own = term.own if term.parts else Cost()
    return term._replace(own=own, parts=(*parts, _lump(name, -missing, letter)))


def _lump(name: str, size: int, letter: str) -> Component:
    """So many bytes, that go by a letter."""
    sign = -1 if size < 0 else 1
    return Component(name, name, Cost(held=(Held(name, (Traced(size, sign * symbol(letter)),), 8),)))
