"""Memory reserved in training: the caching allocator's simulation, run on the allocations of a step in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_of
from tfcalc.core.traced import value_of
from tfcalc.tape.allocations import Allocation
from tfcalc.training.allocator import DEFAULT, AllocatorSettings, Block, CachingAllocator, ExpandableAllocator
from tfcalc.training.states import Placed

STEPS = 2
"""Steps that are simulated: the first allocates the optimizer's states, later ones repeat the second."""
STACKED = "experts"


class Reserved(NamedTuple):
    """Peaks in bytes: of the segments that PyTorch has from the driver, and of the blocks in use."""

    reserved: int
    allocated: int


def reserved(
    states: Placed,
    beside: Sequence[Component],
    events: Sequence[Allocation],
    settings: AllocatorSettings = DEFAULT,
    *,
    gradients_resident: bool,
    steps: int = STEPS,
) -> Reserved:
    """Simulate ``steps`` steps whose forward and backward pass are ``events``. Raises OutOfMemory under a limit.

    ``beside`` are allocated from the beginning: buffers, workspaces, what the loop does not free. So are gradients that
    have permanent buffers (``gradients_resident``); otherwise the events allocate them.

    ======================  ======================================================================
    before the first step   weights, what is beside them, master weights, what is gathered or
                            communicated in, and gradients that have buffers of their own: a block
                            for each tensor
    at its end              the optimizer's states, tensor by tensor
    at the end of each      what the optimizer's step needs, all at once; then gradients are freed
    ======================  ======================================================================

    Source: torch.optim makes ``exp_avg`` and ``exp_avg_sq`` of one parameter after another in its first step;
    ``zero_grad`` frees gradients (``set_to_none``).
    """
    allocator = (ExpandableAllocator if settings.expandable_segments else CachingAllocator)(settings)
    device = states.device
    standing = [device.weights, *beside, device.master, states.communication, states.gathered]
    for tree in (*standing, *((device.gradients,) if gradients_resident else ())):
        _all(allocator, tree)
    for step in range(steps):
        left = _run(allocator, events)
        if not step:
            _all(allocator, device.optimizer)
        for block in _all(allocator, states.step):
            allocator.free(block)
        for block in left:
            allocator.free(block)
    return Reserved(allocator.most_reserved, allocator.most_allocated)


def sizes(tree: Component) -> Iterator[int]:
    """Bytes of each tensor of a tree, in order, copies too.

    Experts are stacked: what each of them holds is a part of one tensor.
    """
    own = [value_of(bytes_of(held.size, held.bits)) for held in tree.own.held]
    inside = [*own, *(size for part in tree.parts for size in sizes(part))]
    copies = value_of(tree.copies)
    if tree.kind == STACKED:
        yield from (copies * size for size in inside)
    else:
        for _ in range(copies):
            yield from inside


def _all(allocator: CachingAllocator, tree: Component) -> list[Block]:
    return [allocator.malloc(size) for size in sizes(tree) if size]


def _run(allocator: CachingAllocator, events: Sequence[Allocation]) -> list[Block]:
    """Run forward and backward; return the blocks that are live at the end."""
    live: dict[int, Block] = {}
    malloc, free = allocator.malloc, allocator.free
    for tensor, size, stream in events:
        if size:
            live[tensor] = malloc(size, stream)
        else:
            free(live.pop(tensor))
    return list(live.values())
