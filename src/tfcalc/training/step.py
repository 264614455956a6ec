"""A training step on the tape: what is saved for backward, and what is live at its peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfcalc.backends.log_probs import after_scores
from tfcalc.backends.program import Code, program
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.interpreter import Numerics
from tfcalc.tape.memory_tracker import Found, Kept, MemorySnapshot, MemoryTracker, ModulePlace
from tfcalc.tape.moments import Envelope
from tfcalc.tape.tape import Stepped, Tape

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.tape.sharded import Units
    from tfcalc.workload import Workload


class Trainer(NamedTuple):
    """Options of the training loop: what happens to gradients, and to tensors saved for backward.

    ``gradients_stay``: they are tensors of their own, rather than added to permanent buffers.
    ``stepped``: what the step of a parameter needs, which backward takes. ``offloads``: what layers that run again have
    read waits for it in the host's memory. FSDP gathers ``units``.
    """

    gradients_stay: bool = True
    stepped: Stepped | None = None
    offloads: bool = False
    units: Units | None = None

    def on(self, tape: Tape) -> Tape:
        """A tape that runs so."""
        tape.gradients_stay, tape.stepped, tape.offloads = self.gradients_stay, self.stepped, self.offloads
        return tape


class StepMemory(NamedTuple):
    """Peaks of the ``phases`` forward, loss and backward; ``saved`` are bytes saved when forward ends.

    ``returned`` are the tensors that the model gives to its caller beside the loss. ``apart`` are the phases where
    gradients are added to buffers elsewhere, if the step can tell.
    """

    phases: Mapping[str, MemorySnapshot]
    saved: int
    returned: Sequence[Found] = ()
    apart: Mapping[str, MemorySnapshot] | None = None


def _shard(tape: Tape, units: Units | None) -> None:
    if units is not None:
        from tfcalc.tape.sharded import shard  # rarely needed: only with FSDP

        shard(tape, units)


def step(
    tree: Component,
    model: Model,
    run: Workload,
    numerics: Numerics,
    code: Code,
    trainer: Trainer,
    tracker: MemoryTracker | None = None,
    *,
    ends_alone: bool = True,
) -> StepMemory:
    """Run forward and backward, layer by layer: what is live beside the parameters, their gradients included.

    Another ``tracker`` may look on, and every layer run for it, not those at the ends alone.
    """
    running = program(model, run, numerics, *code, ends_alone=ends_alone)
    tape, tracker = trainer.on(running.tape), tracker or running.tape.tracker
    tape.tracker, tape.lists = tracker, False
    tracker.begin("forward")
    _shard(tape, trainer.units)
    loss = running(tree)
    if loss.node is None:
        raise InvalidModel("nothing is trained", "freeze fewer modules")
    if code.scoring is not None and code.scoring.pairs:
        after_scores(code.scoring, running.trace)
    running.autocast_ends()
    saved = tracker.saved
    tracker.begin("backward")
    tape.backward(loss)
    tracker.begin("step")
    apart = tracker.phases_apart if tracker.apart and trainer.units is None else None
    return StepMemory(tracker.phases, saved, tape.returned, apart)


def envelope(
    tree: Component,
    model: Model,
    run: Workload,
    numerics: Numerics,
    code: Code,
    trainer: Trainer,
) -> tuple[list[Polynomial], Sequence[Found]]:
    """Closed forms of the live bytes at each moment of forward and backward that may be the peak.

    And what the model returns.
    """
    running = program(model, run, numerics, *code, ends_alone=True)
    tape, bytes_live = trainer.on(running.tape), Envelope()
    tape.tracker, tape.lists = bytes_live, False
    _shard(tape, trainer.units)
    loss = running(tree)
    running.autocast_ends()
    tape.backward(loss)
    return bytes_live.highest, tape.returned


def every_kept(tree: Component, model: Model, run: Workload, numerics: Numerics, *, experts: str) -> list[Kept]:
    """Tensors saved for backward at the end of forward, of every layer by itself; ``experts`` run by this code."""
    running = program(model, run, numerics, "auto")
    running.run_experts_by(experts)
    loss = running(tree)
    assert loss.node is not None
    return list(running.tape.kept.values())


def kept(
    tree: Component,
    model: Model,
    run: Workload,
    numerics: Numerics,
    code: Code,
    trainer: Trainer = Trainer(),  # noqa: B008  # a value
) -> list[Kept]:
    """Tensors saved for backward at the end of forward, of each kind of layer once; sizes may be traced."""
    running = program(model, run, numerics, *code, every_layer=False)
    tape = trainer.on(running.tape)
    running(tree)
    return list(tape.kept.values())


class _Module:
    """A module while its tree is put together."""

    def __init__(self, place: ModulePlace) -> None:
        self.place = place
        self.held: list[Held] = []
        self.inside: dict[ModulePlace, _Module] = {}

    def tree(self, kinds: Mapping[str, str]) -> Component:
        parts = tuple(module.tree(kinds) for module in self.inside.values())
        kind = kinds.get(self.place.name, "activations")
        own = Cost(held=tuple(self.held))
        if parts and self.held:  # what a module keeps beside its parts stands in a part of its own
            parts = (Component("itself", "activations", own), *parts)
            own = Cost()
        return Component(self.place.name, kind, own, parts, copies=self.place.copies)


def activations(kept: Iterable[Kept], kinds: Mapping[str, str]) -> Component:
    """Tree of the tensors that autograd saves, by module; equal layers are one with copies.

    ``kinds`` says of a module's name what it is (``attention``, ``ffn``, …).

    Source: torch.autograd.graph.saved_tensors_hooks sees the same, each storage once.
    """
    whole = _Module(ModulePlace("activations"))
    for one in kept:
        module = whole
        for place in one.module[1:]:  # without the model's own name
            module = module.inside.setdefault(place, _Module(place))
        module.held.append(_tensor(one))
    return whole.tree(kinds)


def _tensor(one: Kept) -> Held:
    size: Num = one.storage.elements
    return Held(f"{one.storage.label} (saved by {one.operation})", (size,), 8 * WIDTHS[one.storage.dtype])
