"""The states of training as one device holds them, what it gathers for a while, and what the host holds for it."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.footprint.training.optimizers import Optimizer
from tfcalc.footprint.training.precisions import Precision
from tfcalc.footprint.training.sharding import Placement, pieces, trained_numbers, units
from tfcalc.footprint.training.states import (
    States,
    gradients,
    master,
    optimizer_states,
    paged_states,
    step_temporary,
    weights,
)

NOTHING = Component("nothing", "memory")
HOSTED = {"none": (), "optimizer": (1, 2, 3), "all": (0, 1, 2, 3)}
"""Which of the states are in the host's memory."""


class Placed(NamedTuple):
    """What a ``device`` holds, what the ``host`` holds for it, what is ``gathered`` for a while, and a step's need.

    Where the optimizer's part is offloaded, the ``step`` needs its memory on the host. What is paged is with the host,
    though it is on the device while there is room. ``communication`` are buffers beside the states that gradients are
    reduced in.
    """

    device: States
    host: States
    gathered: Component
    step: Component
    communication: Component = NOTHING


def placed(
    tree: Component,
    precision: Precision,
    optimizer: Optimizer,
    placement: Placement,
    *,
    frozen_bits: int | None = None,
    sized: tuple[Component, Placement] | None = None,
) -> Placed:
    """The states of a model's tree as one device holds them.

    ========  ==========================================================  ===================
    stage     device                                                      mixed, AdamW (ZeRO)
    ========  ==========================================================  ===================
    0         weights + gradients + master + optimizer                    16Ψ
    1         weights + gradients + (master + optimizer)/N                4Ψ + 12Ψ/N
    2         weights + (gradients + master + optimizer)/N                2Ψ + 14Ψ/N
    3         (weights + gradients + master + optimizer)/N                16Ψ/N
    ========  ==========================================================  ===================

    Each /N is filled up as the layout says (:func:`tfcalc.footprint.training.sharding.pieces`). ``sized`` are tree and
    placement of numbers, where these are of symbols. Raises InvalidModel.

    Source: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 5 and table 1; their padding is DeepSpeed's.
    """
    placement.check()
    piece = pieces(tree, placement) if placement.stage else tree
    numbers = None
    if sized is not None:
        same = sized[0] is tree and sized[1] is placement
        numbers = piece if same else pieces(*sized) if placement.stage else sized[0]
    states = States(
        weights(piece if placement.stage == 3 else tree, precision, frozen_bits=frozen_bits),
        gradients(piece if placement.stage >= 2 else tree, precision),
        master(piece, precision),
        optimizer_states(piece, precision, optimizer, sized=numbers),
    )
    away = HOSTED[placement.offload]
    host = States(*(state if place in away else _emptied(state) for place, state in enumerate(states)))
    if optimizer.paged is not None:
        host = host._replace(optimizer=paged_states(piece, precision, optimizer, sized=numbers))
    return Placed(
        States(*(_emptied(state) if place in away else state for place, state in enumerate(states))),
        host,
        gathered(tree, precision, placement, sized=sized),
        step_temporary(piece, precision, optimizer, sized=numbers),
    )


def gathered(
    tree: Component, precision: Precision, placement: Placement, *, sized: tuple[Component, Placement] | None = None
) -> Component:
    """Beside the pieces of stage 3: the largest unit's whole weights as they are computed with, and their gradients.

    What FSDP gathers is on the tape (:mod:`tfcalc.tape.sharded`).

    Source: DeepSpeed's memory estimator, "4·largest_layer_params": 2 bytes of weights, 2 of gradients.
    """
    if placement.stage < 3 or placement.by_units:
        return NOTHING._replace(name="gathered")
    sizes = [numbers for _, numbers, _ in units(*(sized or (tree, placement)))]
    place = max(range(len(sizes)), key=lambda at: int(sizes[at]))  # type: ignore[call-overload]
    name, numbers, trained = list(units(tree, placement))[place]
    kept = (
        Held(f"weights of {name}", (numbers,), precision.computed),
        Held(f"gradients of {name}", (trained,), precision.gradients),
    )
    return Component("gathered", "memory", Cost(held=kept))


def ddp_buckets(tree: Component, precision: Precision) -> Component:
    """DistributedDataParallel's buckets: a copy of all gradients, which it reduces, from the first step to the last.

    Where gradients have a format of their own there are none: those are reduced in the buffers they are summed up in.

    Source: torch.nn.parallel.DistributedDataParallel, ``gradient_as_bucket_view=False``: with True "the saved memory
    size will be equal to the total gradients memory size"; torch/csrc/distributed/c10d/reducer.cpp.
    """
    return Component(
        "communication",
        "communication",
        Cost(held=(Held("DDP buckets", (tree.total(trained_numbers),), precision.gradients),)),
    )


def _emptied(state: Component) -> Component:
    return NOTHING._replace(name=state.name)
