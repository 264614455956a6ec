"""What could be done otherwise so that a step takes less memory, the least intrusive first.

The order, and with it which change is "smaller":

1. what is learned stays the same: attention's kernel, fused optimizer, fused kernels, recomputation, smaller
   micro-batches whose gradients are added up, the optimizer's states in the host's memory; of serving, paged blocks
2. the same with fewer bits: autocast, bf16 weights, an optimizer's states in 8 bits; a cache or weights in 8, then 4
3. another optimizer: Adafactor, SGD
4. what is trained: adapters (LoRA), over weights of 4 bits (QLoRA)
5. more devices: ZeRO over 2, 4, 8, by its stages
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.defaults import resolve_training
from tfcalc.dimensions import Choice, Described, Dimension, Text, facet
from tfcalc.held.training.precisions import precision
from tfcalc.implementations.kernel_choice import chosen
from tfcalc.report import exact

if TYPE_CHECKING:
    from tfcalc.held.plans import Serving, Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

NOTHING: Mapping[str, Any] = MappingProxyType({})
FEWER_BITS = {"fp32": ("bf16-mixed", "bf16"), "fp16-mixed": ("fp16",), "fp16-master": ("fp16",)}
"""Recipes that hold less than this one; of the others, bf16."""
PURE = ("bf16", "fp16")
ADAM = ("adam", "adamw", "adamw-forloop")
STATELESS = ("none", "sgd")
RANK, QUANTIZED = 16, "nf4-dq"
SHARES, STAGES = (2, 4, 8), ("1", "2", "3")


class Change(NamedTuple):
    """Fields of the workload and of the plan that get other values; ``name`` says it in words.

    ``transient``: it lessens what a step adds to the states, rather than the states.
    """

    name: str
    run: Mapping[str, Any] = NOTHING
    plan: Mapping[str, Any] = NOTHING
    transient: bool = False

    def __add__(self, other: object) -> Change:
        """Both together."""
        assert isinstance(other, Change), "changes are added to changes"
        return Change(
            f"{self.name}; {other.name}",
            {**self.run, **other.run},
            {**self.plan, **other.plan},
            self.transient and other.transient,
        )

    def goes_with(self, other: Change) -> bool:
        """Whether no field would get two values."""
        return not (self.run.keys() & other.run.keys() or self.plan.keys() & other.plan.keys())

    def flags(self, run: Described, plan: Described) -> str:
        """What to add to the command line: ``--recompute full --batch 1``."""
        return " ".join(
            f"{known.flags[0]} {changed[item.name]}"
            for described, changed in ((run, self.run), (plan, self.plan))
            for item in fields(described)  # type: ignore[arg-type]  # every subclass is a dataclass
            if item.name in changed and isinstance(known := facet(item), Dimension | Choice | Text)
        )


Group = tuple[Change, ...]
"""Changes of the same kind by degrees, the smallest first, the one that goes furthest last: one of them is enough."""


def of_training(model: Model, run: Workload, plan: Training) -> list[Group]:
    """What could be otherwise in training, in the order of this module."""
    resolved, plan = resolve_training(model, run, plan)
    by = precision(plan.precision)
    kernel = chosen(model, run, by.compute)
    found: list[Group] = []
    if not resolved.fused and kernel in ("efficient", "flash"):
        found.append((Change(f"attention kernel {kernel}", {"kernel": kernel}, transient=True),))
    if plan.optimizer in ADAM:
        found.append((Change("fused AdamW", plan={"optimizer": "adamw-fused"}),))
    if plan.backend in ("auto", "transformers"):
        found.append((Change("fused kernels", plan={"backend": "fused"}, transient=True),))
    if run.recompute != "full":
        found.append((Change("all layers recomputed", {"recompute": "full"}, transient=True),))
    found.append(tuple(_smaller_micro_batches(run, plan)))
    if plan.offload == "none" and plan.optimizer not in STATELESS:
        found.append((Change("optimizer states in the host's memory", plan={"offload": "optimizer"}),))
    if by.name not in PURE:
        found.append(tuple(_recipes(model, run, plan, FEWER_BITS.get(by.name, ("bf16",)))))
    if plan.optimizer in (*ADAM, "adamw-fused"):
        found.append((Change("AdamW with states in 8 bits", plan={"optimizer": "adamw-8bit"}),))
    if plan.optimizer not in STATELESS:
        found += [
            (Change(f"{name} in the place of {plan.optimizer}", plan={"optimizer": option}),)
            for name, option in (("Adafactor", "adafactor"), ("SGD", "sgd"))
            if not plan.optimizer.startswith(option)
        ]
    if plan.lora is None:
        found.append((Change(f"LoRA, rank {RANK}", plan={"lora": RANK}),))
    if not plan.base_weights:
        rank = RANK if plan.lora is None else plan.lora
        quantized = {"lora": rank, "base_weights": QUANTIZED}
        found.append((Change(f"QLoRA, rank {rank}, weights in 4 bits", plan=quantized),))
    found.append(tuple(_shared(plan)))
    return [group for group in found if group]


def of_serving(run: Workload, plan: Serving) -> list[Group]:
    """What could be otherwise in serving, in the order of this module."""
    found: list[Group] = []
    if not run.fused:
        found.append((Change("attention kernel flash", {"kernel": "flash"}, transient=True),))
    if plan.cache != "paged":
        found.append((Change("cache in pages", plan={"cache": "paged"}),))
    if plan.kv in ("fp32", "bf16", "fp16"):
        found.append((Change("cache in 8 bits", plan={"kv": "fp8"}),))
    if plan.weights in ("", "fp32", "bf16", "fp16"):
        found += [(Change(f"weights in {bits} bits", plan={"weights": f"int{bits}"}),) for bits in (8, 4)]
    return found


def _smaller_micro_batches(run: Workload, plan: Training) -> Iterator[Change]:
    """Half as much at once, a quarter, …: the largest divisor of the batch that is no more."""
    batch, steps = exact(run.batch_size), exact(plan.grad_accum)
    most, tried = batch // 2, set[int]()
    while most:
        micro = next(size for size in range(most, 0, -1) if batch % size == 0)
        most //= 2
        if micro not in tried:
            tried.add(micro)
            times = steps * (batch // micro)
            yield Change(
                f"micro-batches of {micro:,}, {times:,} for a step", {"batch_size": micro}, {"grad_accum": times}, True
            )


def _recipes(model: Model, run: Workload, plan: Training, names: tuple[str, ...]) -> Iterator[Change]:
    """Fewer bits; with the kernel that PyTorch then chooses, where it chose the one that was asked for."""
    for name in names:
        kernel = chosen(model, run, precision(name).compute)
        follows = run.kernel != kernel and run.kernel == chosen(model, run, precision(plan.precision).compute)
        yield Change(f"precision {name}", {"kernel": kernel} if follows else NOTHING, {"precision": name})


def _shared(plan: Training) -> Iterator[Change]:
    """States over more devices, or more of the states."""
    least = exact(plan.gpus)
    for gpus in SHARES:
        for stage in STAGES:
            more = gpus >= least and stage >= plan.zero
            if more and (gpus, stage) != (least, plan.zero):
                yield Change(f"{gpus} GPUs, ZeRO-{stage}", plan={"zero": stage, "gpus": gpus})
