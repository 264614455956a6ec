"""What a training step holds before and after its activations: weights, gradients, master weights, optimizer states."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.measure import bytes_held
from tfcalc.core.number import Num, total
from tfcalc.errors import InvalidModel
from tfcalc.footprint.training.optimizers import Optimizer, bits_held
from tfcalc.footprint.training.precisions import Precision
from tfcalc.footprint.training.stored import Weight, held, in_order, largest_tensor


class States(NamedTuple):
    """The four states of training, each a tree with the model's shape whose leaves hold tensors."""

    weights: Component
    gradients: Component
    master: Component
    optimizer: Component

    @property
    def bytes(self) -> Num:
        """All of them together."""
        return total(state.total(bytes_held) for state in self)

    def base(self, accumulation: int = 1) -> tuple[Component, ...]:
        """What is there when a forward pass starts.

        Gradients are freed after each step, and are not there; but where they are accumulated over several
        micro-batches, they are from the second on.
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
) -> States:
    """The states of a model's tree by this precision; ``sized`` is the same tree of numbers, where this is of symbols.

    ====================  =================================================================
    weights               P·bits; those that are frozen P_f·``frozen_bits``
    gradients             trained parameters · bits
    master weights        trained parameters · 32 bits, where the precision has them
    optimizer             what the optimizer keeps for each trained tensor
    ====================  =================================================================

    A tied tensor is held once. Source: PyTorch's ``Module.parameters``; Rajbhandari et al. 2020 (ZeRO, arXiv
    1910.02054), section 3.1, "2Ψ + 2Ψ + KΨ".
    """
    return States(
        weights(tree, precision, frozen_bits=frozen_bits),
        gradients(tree, precision),
        master(tree, precision),
        optimizer_states(tree, precision, optimizer, sized=sized),
    )


def weights(tree: Component, precision: Precision, *, frozen_bits: int | None = None) -> Component:
    """Each stored tensor once, at the precision's bits; frozen ones at ``frozen_bits``, where these are others."""
    frozen = precision.weights if frozen_bits is None else frozen_bits

    def beside(weight: Weight) -> tuple[Held, ...]:
        return (Held(weight.name, weight.shape, frozen if weight.frozen else precision.weights),)

    return held(tree, beside)._replace(name="weights")


def gradients(tree: Component, precision: Precision) -> Component:
    """One number for each that is trained, once backward has reached it."""
    return _trained(tree, "gradients", "gradient of {}", precision.gradients)


def largest_gradient(tree: Component, precision: Precision, sized: Component | None = None) -> Component:
    """That of the largest tensor, where each is freed before the next is complete."""
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
    """What the optimizer keeps for each tensor that is trained; its counters of steps among them."""

    def beside(weight: Weight) -> tuple[Held, ...]:
        return () if weight.frozen else optimizer.state(weight, precision.moments)

    made = held(tree, beside, sized)
    if not optimizer.shared or not made.parts:
        return made._replace(name="optimizer", own=made.own._replace(held=made.own.held + optimizer.shared))
    maps = Component("maps", "buffer", Cost(held=optimizer.shared))  # no module's
    return made._replace(name="optimizer", parts=(*made.parts, maps))


def paged_states(
    tree: Component, precision: Precision, optimizer: Optimizer, *, sized: Component | None = None
) -> Component:
    """What of the states is in unified memory."""

    def beside(weight: Weight) -> tuple[Held, ...]:
        return () if weight.frozen or optimizer.paged is None else optimizer.paged(weight, precision.moments)

    return held(tree, beside, sized)._replace(name="optimizer")


def step_temporary(
    tree: Component, precision: Precision, optimizer: Optimizer, *, sized: Component | None = None
) -> Component:
    """What the optimizer's step needs beside the states, at its worst moment.

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


def step_alone(weight: Weight, precision: Precision, optimizer: Optimizer) -> tuple[Held, ...]:
    """What the step of one tensor needs beside the states, where it is taken by itself, in backward."""
    copied = (Held(f"copy of {weight.name}", weight.shape, precision.moments),) if optimizer.copied(weight) else ()
    return (*copied, *optimizer.scratch(None, weight, precision.moments))


def _copies(tree: Component, precision: Precision, optimizer: Optimizer, sized: Component | None) -> Component:
    def beside(weight: Weight) -> tuple[Held, ...]:
        copied = optimizer.copied(weight) and not weight.frozen
        return (Held(f"copy of {weight.name}", weight.shape, precision.moments),) if copied else ()

    return held(tree, beside, sized)._replace(name="update")


def _worst(tree: Component, precision: Precision, optimizer: Optimizer, sized: Component | None) -> tuple[Held, ...]:
    """The scratch of the tensor whose update needs most, after the one before it."""
    steps = list(pairwise((None, *in_order(tree, sized))))

    def needed(step: tuple[Weight | None, Weight | None]) -> int:
        before, weight = step
        return bits_held(_scratch(optimizer, before and before.sized, weight and weight.sized, precision.moments))

    if not steps:
        return ()
    return _scratch(optimizer, *max(steps, key=needed), precision.moments)


def _scratch(optimizer: Optimizer, before: Weight | None, weight: Weight | None, bits: int) -> tuple[Held, ...]:
    return () if weight is None else optimizer.scratch(before, weight, bits)


def _trained(tree: Component, name: str, called: str, bits: int) -> Component:
    def beside(weight: Weight) -> tuple[Held, ...]:
        return () if weight.frozen else (Held(called.format(weight.name), weight.shape, bits),)

    return held(tree, beside)._replace(name=name)
