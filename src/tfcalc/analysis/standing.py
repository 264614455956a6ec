"""What stands in memory while a training step runs, and the answer that a step is."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tfcalc.analysis.alive import term
from tfcalc.analysis.training_plan import has_buckets, placement_of, trained_in
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.measure import SMALLEST_BUFFER, buffer_elements, bytes_of
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.number_formats import INT64
from tfcalc.plans import TRAINER
from tfcalc.serving.weight_formats import format_named, single
from tfcalc.serving.weights import weights
from tfcalc.training.adapters import thawed
from tfcalc.training.optimizers import optimizer
from tfcalc.training.peak import Phase, ResidentBytes
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
    from tfcalc.tape.memory_tracker import Found
    from tfcalc.workload import Workload


class Step(Protocol):
    """A step whose terms are told: of all that is found, or of each by itself when it is read."""

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        ...

    @property
    def phases(self) -> list[Phase]:
        """All of them."""
        ...

    @property
    def placed(self) -> Placed:
        """The states."""
        ...

    @property
    def beside(self) -> Overheads:
        """What stands beside them."""
        ...

    @property
    def saved(self) -> Component:
        """What is kept for backward."""
        ...

    @property
    def saved_on_host(self) -> Component:
        """The same in the host's memory."""
        ...

    @property
    def logits(self) -> int:
        """The bytes of those that the model returns."""
        ...


class TrainingStep(NamedTuple):
    """A training step's memory: what is alive at the peak, the phases, what is saved for backward, the states.

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
        """Every term by itself, whole; what is temporary is that of the peak."""
        states = [term(state) for state in self.placed.device]
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
    if plan.gpus != 1 and has_buckets(plan) and not plan.gradient_as_bucket_view:
        made = made._replace(communication=ddp_buckets(tree, by))
    if plan.optimizer_in_backward:
        made = made._replace(device=made.device._replace(gradients=largest_gradient(tree, by, sized)), step=NOTHING)
    if not plan.base_weights:
        return made
    if placement.by_units:
        from tfcalc.training.fsdp import packed_pieces  # of those that ask for it

        shared = packed_pieces(tree, by, placement, single(plan.base_weights))
        return made._replace(device=made.device._replace(weights=shared._replace(name="weights")))
    if placement.stage == 3:
        raise InvalidModel(f"frozen weights in {plan.base_weights} with ZeRO stage 3", "add --fsdp, or take stage 2")
    stored = weights(thawed(tree), format_named(plan.base_weights), dtype=own.stored)
    stored = _adapters_in(stored._replace(name="weights"), by.weights)
    return made._replace(device=made.device._replace(weights=stored))


def _adapters_in(tree: Component, bits: int) -> Component:
    """A tree of stored weights whose adapters have numbers of so many bits, whatever all else is stored in."""
    held = tree.own.held if tree.kind != "adapter" else tuple(each._replace(bits=bits) for each in tree.own.held)
    parts = tuple(_adapters_in(part, bits) for part in tree.parts)
    return tree._replace(own=tree.own._replace(held=held), parts=parts)


def standing_of(states: Placed, beside: Overheads) -> ResidentBytes:
    """What is there all the time, in bytes."""
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
    """What stands beside the states, where the model returns what it has ``made``. Raises InvalidModel."""
    blas = workspaces(plan.capability) if plan.device == "cuda" else NOTHING
    if plan.loop == TRAINER:
        return Overheads(buffers, blas)
    if not made:
        raise InvalidModel(f"--loop {plan.loop} has no effect where no logits are made", "leave it out")
    return Overheads(buffers, blas, outputs(made))


def buffers_of(tree: Component, run: Workload, by: Precision) -> Component:
    """What is held beside the weights: buffers, and the token ids, 8 bytes each, that are the labels, too."""
    numbers = tree.total(buffer_elements)
    held = [Held("token ids", (run.batch_size, run.seq_len), INT64.bits)]
    if value_of(numbers):
        held.append(Held("buffers", (numbers,), max(by.weights, SMALLEST_BUFFER)))
    return Component("buffers and inputs", "inputs", Cost(held=tuple(held)))
