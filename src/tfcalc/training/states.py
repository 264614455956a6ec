"""Model states of training: weights, gradients, master weights and optimizer states, as one device holds them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.measure import bytes_held
from tfcalc.core.number import Num, total
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import Found
from tfcalc.training.optimizers import Optimizer, bits_held
from tfcalc.training.precisions import Precision
from tfcalc.training.sharding import (
    Placement,
    StoredWeight,
    held,
    in_order,
    largest_tensor,
    pieces,
    trained_numbers,
    units,
)


class ModelStates(NamedTuple):
    """The four states of training, each a tree with the model's shape whose leaves hold tensors."""

    weights: Component
    gradients: Component
    master: Component
    optimizer: Component

    @property
    def bytes(self) -> Num:
        """Bytes of all states together."""
        return total(state.total(bytes_held) for state in self)

    def base(self, accumulation: int = 1) -> tuple[Component, ...]:
        """ModelStates that are allocated when a forward pass starts.

        Gradients are freed after each step; but where they are accumulated over several
        micro-batches, they are live from the second on.
        """
        if accumulation < 1:
            raise InvalidModel(f"gradients accumulated over {accumulation} micro-batches", "give 1 or more")
        return self if accumulation > 1 else (self.weights, self.master, self.optimizer)


def model_states(
    tree: Component,
    precision: Precision,
    optimizer: Optimizer,
    *,
    frozen_bits: int | None = None,
    sized: Component | None = None,
) -> ModelStates:
    """Model states of a tree in this precision; ``sized`` is the tree in numbers, where this one is in symbols.

    ====================  =================================================================
    weights               P·bits; those that are frozen P_f·``frozen_bits``
    gradients             trained parameters · bits
    master weights        trained parameters · 32 bits, where the precision has them
    optimizer             what the optimizer keeps for each trained tensor
    ====================  =================================================================

    A tied tensor counts once. Source: PyTorch's ``Module.parameters``; Rajbhandari et al. 2020 (ZeRO, arXiv
    1910.02054), section 3.1, "2Ψ + 2Ψ + KΨ".
    """
    return ModelStates(
        weights(tree, precision, frozen_bits=frozen_bits),
        gradients(tree, precision),
        master(tree, precision),
        optimizer_states(tree, precision, optimizer, sized=sized),
    )


def weights(tree: Component, precision: Precision, *, frozen_bits: int | None = None) -> Component:
    """Weights, each stored tensor once, at the precision's bits; frozen ones at ``frozen_bits``, if given."""
    frozen = precision.weights if frozen_bits is None else frozen_bits

    def beside(weight: StoredWeight) -> tuple[Held, ...]:
        return (Held(weight.name, weight.shape, frozen if weight.frozen else precision.weights),)

    return held(tree, beside)._replace(name="weights")


def gradients(tree: Component, precision: Precision) -> Component:
    """One number for each that is trained, once backward has reached it."""
    return _trained(tree, "gradients", "gradient of {}", precision.gradients)


def largest_gradient(tree: Component, precision: Precision, sized: Component | None = None) -> Component:
    """Gradient of the largest tensor, where each is freed before the next is complete."""
    if not in_order(tree):
        return Component("gradients", "memory")
    weight = largest_tensor(tree, sized)
    held = Held(f"gradient of {weight.name}", weight.shape, precision.gradients)
    return Component("gradients", "memory", Cost(held=(held,)))


def master(tree: Component, precision: Precision) -> Component:
    """The fp32 copy of what is trained that the optimizer changes; empty where the precision has none."""
    if not precision.master:
        return Component("master weights", "memory")
    return _trained(tree, "master weights", "master of {}", precision.master)


def optimizer_states(
    tree: Component, precision: Precision, optimizer: Optimizer, *, sized: Component | None = None
) -> Component:
    """Optimizer states of each trained tensor, counters of steps included."""

    def beside(weight: StoredWeight) -> tuple[Held, ...]:
        return () if weight.frozen else optimizer.state(weight, precision.moments)

    made = held(tree, beside, sized)
    if not optimizer.shared or not made.parts:
        return made._replace(name="optimizer", own=made.own._replace(held=made.own.held + optimizer.shared))
    maps = Component("maps", "buffer", Cost(held=optimizer.shared))  # no module's
    return made._replace(name="optimizer", parts=(*made.parts, maps))


def paged_states(
    tree: Component, precision: Precision, optimizer: Optimizer, *, sized: Component | None = None
) -> Component:
    """Optimizer states in unified memory."""

    def beside(weight: StoredWeight) -> tuple[Held, ...]:
        return () if weight.frozen or optimizer.paged is None else optimizer.paged(weight, precision.moments)

    return held(tree, beside, sized)._replace(name="optimizer")


def step_temporary(
    tree: Component, precision: Precision, optimizer: Optimizer, *, sized: Component | None = None
) -> Component:
    """Peak of the optimizer step's temporary memory.

    That is a copy of all tensors that are updated together, or the scratch of the worst single one, whichever is more;
    and where gradients of fewer bits change fp32 master weights, an fp32 copy of the gradients.

    Source: torch.optim (``_multi_tensor_adam``: ``exp_avg_sq_sqrt``; ``_single_tensor_adam``: ``denom``). The copy of
    gradients: DeepSpeed's ``stage_1_and_2.py`` and Megatron-LM's ``_copy_model_grads_to_main_grads``.
    """
    together = _copies(tree, precision, optimizer, sized)
    alone = _worst(tree, precision, optimizer, sized)
    numbers = tree if sized is None else sized
    copies = together if numbers is tree else _copies(numbers, precision, optimizer, None)
    alone_in_bits = bits_held(alone if numbers is tree else _worst(numbers, precision, optimizer, None))
    more = alone_in_bits > 8 * int(copies.total(bytes_held))  # type: ignore[call-overload]
    update = Component("update", "memory", Cost(held=alone)) if more else together
    parts = [update] if update.own.held or update.parts else []
    if precision.master > precision.gradients:
        parts.append(_trained(tree, "gradients in fp32", "gradient of {}", precision.master))
    return Component("optimizer step", "memory", parts=tuple(parts))


def step_alone(weight: StoredWeight, precision: Precision, optimizer: Optimizer) -> tuple[Held, ...]:
    """Temporary memory of one tensor's step, where it is taken by itself, in backward."""
    copied = (Held(f"copy of {weight.name}", weight.shape, precision.moments),) if optimizer.copied(weight) else ()
    return (*copied, *optimizer.scratch(None, weight, precision.moments))


def _copies(tree: Component, precision: Precision, optimizer: Optimizer, sized: Component | None) -> Component:
    def beside(weight: StoredWeight) -> tuple[Held, ...]:
        copied = optimizer.copied(weight) and not weight.frozen
        return (Held(f"copy of {weight.name}", weight.shape, precision.moments),) if copied else ()

    return held(tree, beside, sized)._replace(name="update")


def _worst(tree: Component, precision: Precision, optimizer: Optimizer, sized: Component | None) -> tuple[Held, ...]:
    """The scratch of the tensor whose update needs most, after the one before it."""
    steps = list(pairwise((None, *in_order(tree, sized))))

    def needed(step: tuple[StoredWeight | None, StoredWeight | None]) -> int:
        before, weight = step
        return bits_held(_scratch(optimizer, before and before.sized, weight and weight.sized, precision.moments))

    if not steps:
        return ()
    return _scratch(optimizer, *max(steps, key=needed), precision.moments)


def _scratch(
    optimizer: Optimizer, before: StoredWeight | None, weight: StoredWeight | None, bits: int
) -> tuple[Held, ...]:
    return () if weight is None else optimizer.scratch(before, weight, bits)


def _trained(tree: Component, name: str, called: str, bits: int) -> Component:
    def beside(weight: StoredWeight) -> tuple[Held, ...]:
        return () if weight.frozen else (Held(called.format(weight.name), weight.shape, bits),)

    return held(tree, beside)._replace(name=name)


NOTHING = Component("nothing", "memory")
SHARED_SUMS = {"bf16": 2, "fp16": 1}
"""Stage of ZeRO from which on DeepSpeed has its part alone of the gradients in fp32, by the format that it trains in.

Source: runtime/bf16_optimizer.py (``fp32_groups_gradients_flat``), which has ZeRO 0 and 1 in bf16, and
runtime/zero/stage_1_and_2.py (``step``: a partition's gradients become fp32).
"""


def sums(tree: Component, placement: Placement, precision: Precision) -> Component:
    """Gradients in fp32 that DeepSpeed has beside those in 16 bits: of all that is trained, or of its part."""
    shared = placement.stage >= SHARED_SUMS[precision.compute]
    numbers = (pieces(tree, placement) if shared else tree).total(trained_numbers)
    return Component(
        "gradients in fp32", "memory", Cost(held=(Held("gradients in fp32", (numbers,), precision.master),))
    )


HOSTED = {"none": (), "optimizer": (1, 2, 3), "all": (0, 1, 2, 3)}
"""Indices of the states that are in the host's memory, by offload."""


class Placed(NamedTuple):
    """States on the ``device`` and on the ``host``, ``gathered`` tensors, and a ``step``'s temporary memory.

    Where the optimizer's part is offloaded, the ``step`` needs its memory on the host. What is paged is with the host,
    though it is on the device while there is room. ``communication`` are buffers beside the states that gradients are
    reduced in.
    """

    device: ModelStates
    host: ModelStates
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
    """Model states of a tree on one device.

    ========  ==========================================================  ===================
    stage     device                                                      mixed, AdamW (ZeRO)
    ========  ==========================================================  ===================
    0         weights + gradients + master + optimizer                    16Ψ
    1         weights + gradients + (master + optimizer)/N                4Ψ + 12Ψ/N
    2         weights + (gradients + master + optimizer)/N                2Ψ + 14Ψ/N
    3         (weights + gradients + master + optimizer)/N                16Ψ/N
    ========  ==========================================================  ===================

    Each /N is filled up as the layout says (:func:`tfcalc.training.sharding.pieces`). ``sized`` are tree and
    placement of numbers, where these are of symbols. Raises InvalidModel.

    Source: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 5 and table 1; their padding is DeepSpeed's.
    """
    placement.check()
    piece = pieces(tree, placement) if placement.stage else tree
    numbers = None
    if sized is not None:
        same = sized[0] is tree and sized[1] is placement
        numbers = piece if same else pieces(*sized) if placement.stage else sized[0]
    states = ModelStates(
        weights(piece if placement.stage == 3 else tree, precision, frozen_bits=frozen_bits),
        gradients(piece if placement.stage >= 2 else tree, precision),
        master(piece, precision),
        optimizer_states(piece, precision, optimizer, sized=numbers),
    )
    away = HOSTED[placement.offload]
    host = ModelStates(*(state if place in away else _emptied(state) for place, state in enumerate(states)))
    if optimizer.paged is not None:
        host = host._replace(optimizer=paged_states(piece, precision, optimizer, sized=numbers))
    return Placed(
        ModelStates(*(_emptied(state) if place in away else state for place, state in enumerate(states))),
        host,
        gathered(tree, precision, placement, sized=sized),
        step_temporary(piece, precision, optimizer, sized=numbers),
    )


def gathered(
    tree: Component, precision: Precision, placement: Placement, *, sized: tuple[Component, Placement] | None = None
) -> Component:
    """Overheads the pieces of stage 3: the largest unit's whole weights as they are computed with, and their gradients.

    What FSDP gathers is on the tape (:mod:`tfcalc.tape.sharded`).

    Source: DeepSpeed's memory estimator, "4·largest_layer_params": 2 bytes of weights, 2 of gradients.
    """
    if placement.stage < 3 or placement.by_units:
        return NOTHING._replace(name="gathered")
    sizes = [numbers for _, numbers, _ in units(*(sized or (tree, placement)))]
    if not sizes:
        return NOTHING._replace(name="gathered")
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


KIB = 1024
SMALL, LARGE = 2 * 4096 * KIB + 8 * 16 * KIB, 8 * 4096 * KIB
"""Bytes of a workspace: two blocks of 4 MiB and eight of 16 KiB, or eight of 4 MiB."""
LARGE_SINCE = ("9.", "10.", "12.")
"""The compute capabilities, by their beginnings, of GPUs that have the large one: Hopper and Blackwell."""
THREADS = ("forward", "backward")
"""Threads with a cuBLAS handle each: the program's own runs forward, autograd's runs backward."""


class Overheads(NamedTuple):
    """Memory beside the states: buffers and token ids, cuBLAS's workspaces, and outputs that the loop holds."""

    buffers: Component
    workspaces: Component = NOTHING
    outputs: Component = NOTHING


def workspaces(capability: str) -> Component:
    """Workspaces that PyTorch gives to cuBLAS and cuBLASLt, which share them, from the first product to the last.

    They are blocks of its allocator, one for each handle and stream, and each thread has a handle of its own. Where
    nothing is known of the GPU, they are taken for small ones.

    Source: PyTorch 2.13, aten/src/ATen/cuda/CublasHandlePool.cpp (``parseChosenWorkspaceSize``,
    ``setWorkspaceForHandle``, ``getCUDABlasLtWorkspace``) and detail/DeviceThreadHandles.h.
    """
    size = LARGE if has_large_workspaces(capability) else SMALL
    held = tuple(Held(f"cuBLAS's, in {thread}", (size,), 8) for thread in THREADS)
    return Component("workspaces", "workspaces", Cost(held=held))


def has_large_workspaces(capability: str) -> bool:
    """Return whether a GPU is one of those for which they are large."""
    return capability.startswith(LARGE_SINCE)


def outputs(made: Sequence[Found]) -> Component:
    """Outputs of the model, which a variable of the training loop keeps live all the time.

    In backward and in the optimizer's step it is that of this step; in forward, until the model returns and the
    variable is given its new value, that of the step before.
    """
    held = tuple(Held(one.label, one.shape, 8 * WIDTHS[one.dtype]) for one in made)
    return Component("outputs", "outputs", Cost(held=held))
