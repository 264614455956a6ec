"""Stacks: how the code that trains a model on many GPUs stores its states, and in which number formats.

==============  =====================================================================================================
Megatron-core   weights and gradients whole, the optimizer's part of one buffer (ZeRO 1)
FSDP2           pieces of each tensor, cut along its first axis, in fp32; weights are gathered in 16 bits, unit by unit
DeepSpeed       16 bits, and gradients added up in fp32; parts of one buffer (ZeRO 1 and 2) or of each tensor (ZeRO 3)
==============  =====================================================================================================

Source: Megatron-core's ``DistributedOptimizer``; torch.distributed.fsdp's ``FSDPParam._init_sharded_param``;
DeepSpeed's runtime/zero/stage_1_and_2.py, runtime/zero/partition_parameters.py and runtime/bf16_optimizer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfcalc.core.traced import value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import ROWS_AT_A_TIME
from tfcalc.timing.rates import DEEPSPEED, FSDP, MEGATRON, table
from tfcalc.training.precisions import OF_MEGATRON, PRECISIONS, precision
from tfcalc.training.sharding import Placement, fewest, pieces, stored_numbers
from tfcalc.training.states import sums
from tfcalc.training.step_terms import states_of

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.core.number import Num
    from tfcalc.plans import Training
    from tfcalc.training.states import Placed

WHOLE = "0"
"""Stage of ZeRO that shares nothing."""


class Stored(NamedTuple):
    """States of a tree of parameters, and the parameters that a GPU stores: the first one, and that with fewest."""

    states: Placed
    params: Num
    fewest: Num


class TrainingStack(NamedTuple):
    """A stack, and the way in which it stores a model.

    Attributes:
        name: one of ``timing.rates.STACKS``.
        title: its name in words.
        precisions: number formats whose bytes are known on its GPUs, the usual one first.
        cut: how tensors are cut into pieces (``training.sharding.LAYOUTS``).
        rows: a vocabulary is filled up until each GPU has a multiple of this many rows.
    """

    name: str
    title: str
    precisions: tuple[str, ...]
    cut: str
    rows: int = ROWS_AT_A_TIME

    @property
    def eager_attention(self) -> bool:
        """Return whether its attention saves scores (rates.toml)."""
        return bool(table()["stacks"][self.name].get("eager_attention", False))

    def stored(self, tree: Component, plan: Training, devices: Num) -> Stored:
        """Return the states of a tree that this many GPUs share, by the plan's stage of ZeRO.

        FSDP's shards are all that it stores, whatever it gathers (stages 2 and 3).
        """
        stage = plan.zero if value_of(devices) != 1 else WHOLE
        if self.name == FSDP:
            stage = "3"
        plan = plan.replaced(zero=stage, gpus=devices, layout=self.cut, grad_accum=1)
        placement = Placement(int(stage), devices, self.cut)
        found = states_of(tree, tree, plan)
        if self.name == DEEPSPEED:
            own = found.device.gradients
            more = sums(tree, placement, precision(plan.precision))
            found = found._replace(device=found.device._replace(gradients=own._replace(parts=(*own.parts, more))))
        if stage != "3":
            whole = tree.total(stored_numbers)
            return Stored(found, whole, whole)
        return Stored(found, pieces(tree, placement).total(stored_numbers), fewest(tree, placement))


KNOWN: Mapping[str, TrainingStack] = {
    each.name: each
    for each in (
        TrainingStack(MEGATRON, "Megatron-core", (OF_MEGATRON.name, *PRECISIONS), "flat"),
        TrainingStack(FSDP, "FSDP2", ("bf16-fsdp", "fp16-fsdp"), "fsdp2", 1),
        TrainingStack(DEEPSPEED, "DeepSpeed", ("bf16-master", "fp16-master"), "zero"),
    )
}
"""Stacks whose GPUs are known one by one."""
