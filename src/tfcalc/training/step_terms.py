"""Terms of a training step: states, and all else that is live; its phases, and the tree of what is live at the peak.

Only what is live at once is added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Protocol

from tfcalc.backends.sdpa import METAL
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.measure import SMALLEST_BUFFER, buffer_elements, bytes_held, bytes_of
from tfcalc.core.number import Num
from tfcalc.core.polynomial import symbol
from tfcalc.core.traced import Traced, value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import INT64, WIDTHS
from tfcalc.plans import TRAINER
from tfcalc.serving.weight_formats import single
from tfcalc.serving.weights import weights
from tfcalc.tape.memory_tracker import LENT, Found, MemorySnapshot, PeakRecorder
from tfcalc.training.adapters import thawed
from tfcalc.training.optimizers import optimizer
from tfcalc.training.plan_checks import base_format, has_buckets, placement_of, trained_in
from tfcalc.training.precisions import Precision, precision
from tfcalc.training.states import (
    NOTHING,
    Overheads,
    Placed,
    ddp_buckets,
    largest_gradient,
    outputs,
    placed,
    workspaces,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfcalc.plans import Training
    from tfcalc.workload import Workload


FORWARD, LOSS, BACKWARD, STEP = "forward", "loss", "backward", "step"


class ResidentBytes(NamedTuple):
    """Bytes allocated during the whole step: states, buffers, workspaces, outputs of the loop, DDP's buckets."""

    weights: int
    master: int
    optimizer: int
    buffers: int
    workspaces: int
    outputs: int
    communication: int = 0


class Phase(NamedTuple):
    """Peak of one phase: resident bytes, gradients, saved tensors that backward still needs, and temporary buffers.

    ``gathered`` are weights of other devices. ``live`` is what is on the tape: activations, temporary, and the
    gradients that it has made.
    """

    name: str
    standing: int
    gradients: int
    activations: int
    gathered: int
    temporary: int
    live: int = 0

    @property
    def total(self) -> int:
        """Bytes live at the phase's peak."""
        return self.standing + self.gradients + self.activations + self.gathered + self.temporary


def phases(
    standing: ResidentBytes,
    gradients: int,
    moments: Mapping[str, MemorySnapshot],
    gathered: int,
    step_temporary: int,
    *,
    gradients_resident: bool,
    stepped: bool = False,
) -> list[Phase]:
    """Forward, loss, backward and optimizer step, each at its peak.

    ====================  =====================================================================
    forward, loss         resident + activations so far + temporary
    backward              resident + gradients so far + activations still needed + temporary
    step                  resident + all gradients + the step's temporary
    ====================  =====================================================================

    ``gradients_resident``: gradients are live during the whole step, as they are accumulated over micro-batches, or
    have permanent buffers; otherwise backward allocates them, and they are freed after the step. Where parameters have
    been ``stepped`` in backward, there is no other step.

    Source: torch.distributed._tools.mem_tracker.MemTracker has these phases in a steady state: the optimizer's states
    exist, gradients are freed after each step.
    """
    base, before = sum(standing), gradients if gradients_resident else 0
    found = [
        Phase(
            name,
            base,
            before + moment.gradients,
            moment.saved,
            gathered + moment.gathered,
            moment.temporary,
            moment.total,
        )
        for name, moment in moments.items()
    ]
    return found if stepped else [*found, Phase(STEP, base, gradients, 0, 0, step_temporary)]


def highest(found: list[Phase]) -> Phase:
    """Phase with the highest peak; of equal ones the first."""
    return max(found, key=lambda phase: phase.total)


class Step(Protocol):
    """A step whose terms are told: of all that is found, or of each by itself when it is read."""

    @property
    def alive(self) -> Component:
        """Memory live at the peak, term by term."""
        ...

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        ...

    @property
    def phases(self) -> list[Phase]:
        """Phases of the step, all of them."""
        ...

    @property
    def placed(self) -> Placed:
        """The states."""
        ...

    @property
    def beside(self) -> Overheads:
        """Overheads beside the states."""
        ...

    @property
    def saved(self) -> Component:
        """Tensors saved for backward."""
        ...

    @property
    def saved_on_host(self) -> Component:
        """Tensors saved for backward in the host's memory."""
        ...

    @property
    def logits(self) -> int:
        """The bytes of those that the model returns."""
        ...


class TrainingStep(NamedTuple):
    """A training step's memory: what is live at the peak, the phases, what is saved for backward, the states.

    Some of what is saved may be in the host's memory (``saved_on_host``). ``logits`` are the bytes of those that the
    model returns.
    """

    alive: Component
    phases: list[Phase]
    peak: Phase
    saved: Component
    placed: Placed
    beside: Overheads
    passing: Component
    saved_on_host: Component = NOTHING
    logits: int = 0

    @property
    def terms(self) -> Component:
        """Terms of the memory, each by itself and whole; temporary buffers are those of the peak."""
        device = self.placed.device._replace(gradients=gradients_made(self.placed, self.phases))
        states = [term(state) for state in device]
        parts = (
            *states,
            *self.beside,
            self.placed.communication,
            self.saved,
            self.placed.gathered,
            term(self.passing._replace(name="temporary")),
        )
        return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def states_of(tree: Component, sized: Component, plan: Training) -> Placed:
    """The states of a tree, as one device holds them; ``sized`` is the same tree of numbers."""
    placement = placement_of(plan)
    by, chosen = trained_in(plan), optimizer(plan.optimizer)
    own = precision(plan.precision)
    frozen = None if plan.lora is None else own.weights
    made = placed(tree, by, chosen, placement, frozen_bits=frozen, sized=(sized, placement))
    if plan.copies != 1 and has_buckets(plan) and not plan.gradient_as_bucket_view:
        made = made._replace(communication=ddp_buckets(tree, by))
    if plan.optimizer_in_backward:
        made = made._replace(device=made.device._replace(gradients=largest_gradient(tree, by, sized)), step=NOTHING)
    if not plan.base_weights:
        return made
    if placement.by_units:
        from tfcalc.training.fsdp import offloaded, packed_pieces  # of those that ask for it

        base = single(plan.base_weights)
        shared = packed_pieces(tree, by, placement, base)._replace(name="weights")
        if placement.offload == "all":
            shared, away = offloaded(shared, base)
            made = made._replace(host=made.host._replace(weights=away))
        return made._replace(device=made.device._replace(weights=shared))
    stored = weights(thawed(tree), base_format(plan), dtype=own.stored)
    stored = _adapters_in(stored._replace(name="weights"), by.weights)
    return made._replace(device=made.device._replace(weights=stored))


def _adapters_in(tree: Component, bits: int) -> Component:
    """A tree of stored weights whose adapters have numbers of ``bits`` bits, whatever all else is stored in."""
    held = tree.own.held if tree.kind != "adapter" else tuple(each._replace(bits=bits) for each in tree.own.held)
    parts = tuple(_adapters_in(part, bits) for part in tree.parts)
    return tree._replace(own=tree.own._replace(held=held), parts=parts)


def gradients_made(states: Placed, found: Iterable[Phase]) -> Component:
    """Gradients on the device: all that backward makes, where the host's optimizer takes them behind it alone."""
    kept = states.device.gradients
    return kept if kept.own.held or kept.parts or not any(phase.gradients for phase in found) else states.host.gradients


def standing_of(states: Placed, beside: Overheads) -> ResidentBytes:
    """Resident bytes: those live during the whole step."""
    device = states.device
    held = (device.weights, device.master, device.optimizer, *beside, states.communication)
    return ResidentBytes(*(bytes_in(each) for each in held))


def bytes_in(tree: Component) -> int:
    """The bytes of all that a tree holds: :func:`~tfcalc.core.measure.bytes_held`, without the formula of its sizes."""
    found: Num = sum(bytes_in(part) for part in tree.parts)
    for held in tree.own.held:
        found += bytes_of(prod(map(value_of, held.factors)), held.bits)
    return value_of(found * tree.copies)


def beside_of(buffers: Component, plan: Training, made: Sequence[Found]) -> Overheads:
    """Overheads beside the states, where the model returns what it has ``made``. Raises InvalidModel."""
    blas = workspaces(plan.capability) if plan.device == "cuda" and plan.capability != METAL else NOTHING
    if plan.loop == TRAINER:
        return Overheads(buffers, blas)
    if not made:
        raise InvalidModel(f"--loop {plan.loop} has no effect where no logits are made", "leave it out")
    return Overheads(buffers, blas, outputs(made))


def buffers_of(tree: Component, run: Workload, by: Precision) -> Component:
    """Tensors stored beside the weights: buffers, and the token ids, 8 bytes each, that are the labels, too."""
    numbers = tree.total(buffer_elements)
    held = [Held("token ids", (run.batch_size, run.seq_len), INT64.bits)]
    if value_of(numbers):
        held.append(Held("buffers", (numbers,), max(by.weights, SMALLEST_BUFFER)))
    return Component("buffers and inputs", "inputs", Cost(held=tuple(held)))


TEMPORARY, RELEASED, MISSING = "τ", "ρ", "μ"
LETTERS = {
    TEMPORARY: "temporary buffers at the peak, in bytes",
    RELEASED: "activations already freed or not yet saved at the peak, in bytes",
    MISSING: "gradients not yet computed at the peak, in bytes",
}
"""What has no closed form, for it depends on when the peak is."""


def alive(
    states: Placed, gradients: Component, saved: Component, beside: Overheads, passing: Component, peak: Phase
) -> Component:
    """Memory live at the peak, term by term; what has been released, or is yet to come, is subtracted."""
    whole = states.device
    parts = [*(term(state) for state in (whole.weights, whole.master, whole.optimizer)), *beside, states.communication]
    if peak.gradients:
        parts.append(less(term(gradients), peak.gradients, MISSING, "not yet computed"))
    if peak.activations:
        parts.append(less(saved, peak.activations, RELEASED, "already freed"))
    if peak.gathered:
        parts.append(states.gathered)
    if peak.temporary:
        parts.append(term(passing._replace(name="temporary")))
    return Component("memory", "memory", parts=tuple(part for part in parts if part.own.held or part.parts))


def term(state: Component) -> Component:
    """A term as a whole: its parts are shown where one looks deeper."""
    return state._replace(kind=state.name)


def less(term: Component, there: int, letter: str, name: str) -> Component:
    """A term of which only so much is there at the peak."""
    missing = value_of(term.total(bytes_held)) - there
    if not missing:
        return term
    parts = term.parts if term.parts else (term._replace(name="all"),)
    own = term.own if term.parts else Cost()
    return term._replace(own=own, parts=(*parts, lump(name, -missing, letter)))


def lump(name: str, size: int, letter: str) -> Component:
    """Component of ``size`` bytes, which a letter stands for."""
    sign = -1 if size < 0 else 1
    return Component(name, name, Cost(held=(Held(name, (Traced(size, sign * symbol(letter)),), 8),)))


def temporaries(recorder: PeakRecorder, peak: Phase) -> Component:
    """Temporary buffers live at the peak: each kind of tensor by the operation that made it."""
    parts = tuple(by_operation(one for one in recorder.passing(peak.name) if one.label not in LENT))
    tree = Component("temporary", "temporary", parts=parts)
    rest = peak.temporary - bytes_in(tree)
    return tree._replace(parts=(*parts, lump("workspace", rest, TEMPORARY))) if rest else tree


def by_operation(found: Iterable[Found]) -> Iterator[Component]:
    """Yield each kind of tensor by the operation that made it."""
    alike: dict[tuple[str, str, int], list[Found]] = {}
    for one in found:
        alike.setdefault((one.label, one.dtype, value_of(one.elements)), []).append(one)
    for (name, dtype, _), ones in sorted(alike.items(), key=lambda item: -item[0][2] * len(item[1])):
        if name:
            held = Held(name, (ones[0].elements,), 8 * WIDTHS[dtype])
            yield Component(name, "memory", Cost(held=(held,)), copies=len(ones))
