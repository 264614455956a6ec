"""Allocations in order hold what is tracked, where every layer runs by itself as where some stand for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

from tfcalc import Training, Workload, load
from tfcalc.core.component import Component, Cost, Held
from tfcalc.defaults import resolve_training
from tfcalc.tape.memory_tracker import Turn
from tfcalc.tape.moments import Allocation, AllocationRecorder, Span, repeated
from tfcalc.training.allocator import AllocatorSettings, Reserved, reserved, sizes
from tfcalc.training.plan_checks import code_of, numerics, trained, units
from tfcalc.training.precisions import precision
from tfcalc.training.states import NOTHING, ModelStates, Placed
from tfcalc.training.step import Trainer, step

MIB = 2**20


@pytest.mark.parametrize("name", ["llama-3.2-1b", "gpt2", "gemma-2-2b", "bert-base-uncased"])
@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
@pytest.mark.parametrize("gradients_stay", [True, False])
def test_most_is_live_when_the_tracker_says_so(name: str, recompute: str, gradients_stay: bool) -> None:
    model = load(name)
    run, plan = Workload(phase="train", seq_len=256, recompute=recompute), Training(precision="bf16-mixed")
    run, plan = resolve_training(model, run, plan)
    tree, formats = trained(model.tree(run), plan), numerics(precision(plan.precision), plan)
    recorder = AllocationRecorder()
    args = (tree, model, run, formats, code_of(plan), Trainer(gradients_stay))
    step(*args, recorder, ends_alone=False)
    events = recorder.noted.events
    made = {tensor: size for tensor, size, _ in events if size}
    live = accumulate(size or -made[tensor] for tensor, size, _ in events)
    phases = step(*args).phases
    assert max(live) == max(phase.total for phase in phases.values())


OF_ROWS = ("llama-3.2-1b", "gemma-2-2b", "gemma-3-4b-it", "t5-large", "bert-large-uncased")
"""Layers that are all alike, that take turns, in two stacks, and with dropout."""
SHARED = Training(precision="bf16", zero="3", gpus=4, layout="fsdp2")
ADAPTED = Training(lora=8)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("recompute", ["none", "full", "every:2"])
@pytest.mark.parametrize("plan", [Training(precision="bf16-mixed"), SHARED, ADAPTED], ids=["mixed", "fsdp", "lora"])
def test_layers_that_did_not_run_have_allocated_what_those_did_that_stood_for_them(
    name: str, recompute: str, plan: Training
) -> None:
    model = load(name)
    run, plan = resolve_training(model, Workload(phase="train", seq_len=128, recompute=recompute), plan)
    tree, formats = trained(model.tree(run), plan), numerics(precision(plan.precision), plan)
    every, ends = AllocationRecorder(), AllocationRecorder()
    args = (tree, model, run, formats, code_of(plan), Trainer(units=units(tree, plan)))
    step(*args, every, ends_alone=False)
    step(*args, ends)
    told = repeated(ends.noted.events, ends.noted.spans)
    assert told is not None
    assert len(ends.noted.events) < len(told), "some did not run"
    assert in_order(told) == in_order(every.noted.events)


def in_order(events: Sequence[Allocation]) -> list[object]:
    """Allocations by their place, and which of them are freed between two of them, in any order."""
    places: dict[int, int] = {}
    found: list[object] = []
    freed: set[int] = set()
    for event in events:
        tensor, size, _ = event
        if not size:
            freed.add(places[tensor])
            continue
        places[tensor] = len(places)
        found += [freed, event[1:]]
        freed = set()
    return [*found, freed]


def test_turns_that_are_not_alike_tell_nothing_of_others() -> None:
    """The second of three turns stands for two, and has made one byte more than those beside it."""
    made = [(place, size, 0) for place, size in enumerate((8, 9, 8))]
    spans = [Span(Turn(1, place, 2 if place == 1 else 1), place, place + 1) for place in range(3)]
    assert repeated(made, spans) is None
    alike = [(place, 8, 0) for place, _, _ in made]
    assert repeated(alike, spans) == [(place, 8, 0) for place in range(4)]


def test_of_a_loop_each_turn_has_its_own_and_each_layer_its_own_once() -> None:
    """What a turn of Mamba's loop over time keeps is made once, and again for all turns: it is one storage."""
    model = load("mamba-790m")
    run, plan = resolve_training(model, Workload(phase="train", seq_len=16), Training(precision="fp32"))
    formats = numerics(precision(plan.precision), plan)
    args = (trained(model.tree(run), plan), model, run, formats, code_of(plan), Trainer())
    every = step(*args, ends_alone=False).phases
    some = step(*args).phases
    assert {name: phase.total for name, phase in some.items()} == {name: phase.total for name, phase in every.items()}


def component(*held: int, copies: int = 1) -> Component:
    return Component("all", "memory", Cost(held=tuple(Held("x", (size,), 8) for size in held)), copies=copies)


def test_each_copy_has_tensors_of_its_own() -> None:
    tree = Component("model", "memory", Cost(held=(Held("table", (3,), 4),)), (component(5, 6, copies=2),))
    assert list(sizes(tree)) == [2, 5, 6, 5, 6]
    assert list(sizes(tree._replace(kind="experts", copies=8))) == [16, 40, 48, 40, 48]


def states(weights: Component, optimizer: Component = NOTHING, step: Component = NOTHING) -> Placed:
    device = ModelStates(weights, NOTHING, NOTHING, optimizer)
    return Placed(device, ModelStates(NOTHING, NOTHING, NOTHING, NOTHING), NOTHING, step)


STEP = [
    (0, 24 * MIB, 0),  # kept in forward
    (1, 40 * MIB, 0),  # logits
    (1, 0, 0),
    (2, 12 * MIB, 0),  # a gradient, which is there at the end
    (0, 0, 0),
]


def test_a_step_by_hand() -> None:
    """First step: 30 of weights, 24, 40; the 12 of the gradient are cut off the 40 that are free again.

    Two moments of 12: one from the 24 that are free (12 are left), the other from these. 94 are reserved.

    Second: nothing has 24 but the 40, of which 16 are left; the 40 need a segment of their own; the gradient fits
    best in the 12 of the first. 134 are reserved, 30 + 24 + 24 + 40 = 118 in use at most.
    """
    placed = states(component(30 * MIB), component(12 * MIB, 12 * MIB))
    assert reserved(placed, (), STEP, gradients_resident=False, steps=1) == Reserved(94 * MIB, 94 * MIB)
    assert reserved(placed, (), STEP, gradients_resident=False, steps=2) == Reserved(134 * MIB, 118 * MIB)
    assert reserved(placed, (), STEP, gradients_resident=False, steps=3) == Reserved(134 * MIB, 118 * MIB)


def test_expandable_segments_by_hand() -> None:
    """118 MiB on six pages of 20."""
    placed = states(component(30 * MIB), component(12 * MIB, 12 * MIB))
    found = reserved(placed, (), STEP, AllocatorSettings(expandable_segments=True), gradients_resident=False)
    assert found == Reserved(120 * MIB, 118 * MIB)


def test_what_another_stream_has_freed_is_not_taken() -> None:
    """40 that are free on one stream are asked of the driver once more on another."""
    gathered = [(0, 40 * MIB, 1), (0, 0, 0)]
    logits = [(2, 40 * MIB, 0), (2, 0, 0)]
    assert reserved(states(NOTHING), (), [*gathered, *logits], gradients_resident=False).reserved == 80 * MIB
    alone = [(tensor, size, 0) for tensor, size, _ in gathered]
    assert reserved(states(NOTHING), (), [*alone, *logits], gradients_resident=False).reserved == 40 * MIB


def test_fsdp_gathers_and_reduces_on_streams_of_its_own() -> None:
    """In llama-3.2-1b's 16 layers 60,821,504 numbers each; the table and the norm behind them are the root's."""
    model, layer, root = load("llama-3.2-1b"), 60_821_504, 128256 * 2048 + 2048
    plan = Training(precision="bf16", zero="3", gpus=4, layout="fsdp2")
    run, plan = resolve_training(model, Workload(phase="train", seq_len=16, recompute="full"), plan)
    tree, recorder = trained(model.tree(run), plan), AllocationRecorder()
    formats = numerics(precision(plan.precision), plan)
    step(tree, model, run, formats, code_of(plan), Trainer(units=units(tree, plan)), recorder, ends_alone=False)
    gathered, pieces = ([size for _, size, its in recorder.noted.events if its == stream] for stream in (1, 2))
    assert gathered == [2 * root, *[2 * layer] * 32], "each layer's in forward and in backward"
    assert pieces == [*[2 * layer // 4] * 16, 2 * root // 4]
