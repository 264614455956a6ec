"""Changes that make it take less memory, in the order that people try them.

Training: number formats and kernels that cost nothing, gradient checkpointing, adapters (LoRA, QLoRA), an 8-bit or
paged optimizer, its step in backward, a loss in chunks, an optimizer that keeps less, smaller batches with gradient
accumulation, ZeRO over more GPUs, offload.
Serving: weights in 8 and 4 bits, an 8-bit cache, a shorter context, fewer requests. At rest: weights of fewer bits.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tfcalc.configs.published import HFModel
from tfcalc.core.number import divisors
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_run
from tfcalc.dimensions import Described, choice, described, facet, text
from tfcalc.number_formats import COMPUTED
from tfcalc.training.precisions import precision
from tfcalc.workload import AUTO

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.workload import Workload


ADAM = ("adam", "adamw", "adamw-forloop", "adamw-fused")
STATELESS = ("none", "sgd")
EIGHT_BITS = (("8-bit AdamW", "adamw-8bit"), ("paged 8-bit AdamW", "paged-adamw-8bit"))
RANK, QUANTIZED = 16, "nf4-dq"
GPUS = (2, 4, 8, 16, 32, 64)
STAGES = ("1", "2", "3")
PLAIN_CACHES = (AUTO, *COMPUTED)
MULTIPLE = 128
"""Lengths in tokens are proposed in multiples of it."""
SHORTEST = 1024
"""Tokens below which no context is proposed."""

D = TypeVar("D", bound=Described)


@described()
class StoredFormat(Described):
    """Storage of a model at rest: a format of ``weights``, or ``dtype``, one for all tensors."""

    weights: str = text("format of the weights", "--weights")
    dtype: str = choice("number format", "--dtype", default=AUTO)


class Change(NamedTuple):
    """Fields of the workload or of the plan that get other values; ``name`` says it alone, ``short`` beside others.

    ``reduces_request``: it is less of what was asked for.
    """

    name: str
    values: Mapping[str, object]
    short: str = ""
    reduces_request: bool = False

    def __add__(self, other: object) -> Change:
        """Return both changes as one."""
        assert isinstance(other, Change), "changes are added to changes"
        name = f"{self.short or self.name} + {other.short or other.name}"
        return Change(name, {**self.values, **other.values}, name, self.reduces_request or other.reduces_request)

    def compatible_with(self, other: Change) -> bool:
        """Return whether no field would get two values."""
        return not self.values.keys() & other.values.keys()

    def applied(self, described: D) -> D:
        """A workload or a plan with those of the values that it has fields for."""
        known = {item.name for item in fields(described)}
        return described.replaced(**{name: value for name, value in self.values.items() if name in known})

    def flags(self, *described: Described) -> tuple[str, ...]:
        """Return what to add to the command line, a word for each option with its value: ``--checkpointing full``."""
        known = {
            item.name: facet_.flags[0]
            for one in described
            for item in fields(one)
            if (facet_ := facet(item)) is not None and facet_.flags
        }
        values = dict(self.values)
        found = []
        if values.get("base_weights") == QUANTIZED and "lora" in values:
            found.append(f"--qlora {values.pop('lora')}")
            del values["base_weights"]
        switches = [known[name].split("/")[0] for name, value in values.items() if value is True]
        others = (f"{known[name]} {value}" for name, value in values.items() if value is not True)
        return (*found, *switches, *others)


Changes = tuple[Change, ...]
"""Those that are made together."""
Group = tuple[Changes, ...]
"""The same changes by degrees, the least first, those that go furthest last: one of them is enough."""
Tiers = tuple[tuple[Group, ...], ...]
"""What is tried: single changes, then those that people combine, by two and by three."""


class Options:
    """The changes that there are, by what they are called here, each by its degrees."""

    def __init__(self, known: Mapping[str, Sequence[Change]]) -> None:
        self.known = {name: tuple(degrees) for name, degrees in known.items() if degrees}

    @property
    def furthest(self) -> list[Change]:
        """Furthest degree of each change."""
        return [degrees[-1] for degrees in self.known.values()]

    def tiers(self, *combined: str) -> Tiers:
        """Return each change alone, in order; then those ``combined``, if all of them exist, by two and by three."""
        single = tuple(tuple((change,) for change in degrees) for degrees in self.known.values())
        together = [names.split("+") for names in combined]
        return (
            single,
            *(
                tuple(
                    self._combination(names)
                    for names in together
                    if len(names) == size and all(name in self.known for name in names)
                )
                for size in (2, 3)
            ),
        )

    def _combination(self, names: Sequence[str]) -> Group:
        """The first that has several degrees by these, the others as far as they go."""
        varied = next((name for name in names if len(self.known[name]) > 1), names[0])
        return tuple(
            tuple(degree if name == varied else self.known[name][-1] for name in names) for degree in self.known[varied]
        )


OF_TRAINING = (
    "qlora+checkpointing",
    "lora+checkpointing",
    "8-bit+checkpointing",
    "in-backward+checkpointing",
    "loss+checkpointing",
    "adafactor+checkpointing",
    "precision+checkpointing",
    "gpus+checkpointing",
    "offload+checkpointing",
    "batch+checkpointing",
    "batch+qlora",
    "batch+lora",
    "gpus+batch",
    "gpus+offload",
    "lora+gpus",
    "qlora+checkpointing+batch",
    "lora+checkpointing+batch",
    "8-bit+in-backward+checkpointing",
    "8-bit+checkpointing+batch",
    "adafactor+checkpointing+batch",
    "qlora+checkpointing+precision",
    "lora+checkpointing+precision",
    "8-bit+checkpointing+precision",
    "adafactor+checkpointing+precision",
    "gpus+checkpointing+batch",
    "gpus+checkpointing+precision",
    "gpus+checkpointing+offload",
    "gpus+lora+checkpointing",
)
OF_SERVING = ("int8+kv", "int4+kv", "context+int4+kv", "concurrency+int4+kv")
"""What people combine; the first that has several degrees by these."""


def of_training(model: Model, run: Workload, plan: Training) -> Options:
    """Return the changes that could be made in training, in the order of this module."""
    return Options(
        {
            "kernel": _kernels(model, run, plan),
            "fused": [Change("fused AdamW", {"optimizer": "adamw-fused"})] if plan.optimizer in ADAM[:3] else [],
            "checkpointing": _checkpointing(model, run, plan),
            "precision": _precisions(plan),
            "lora": _lora(model, plan),
            "qlora": _qlora(model, plan),
            "8-bit": [Change(name, {"optimizer": of}) for name, of in EIGHT_BITS] if plan.optimizer in ADAM else [],
            "in-backward": _in_backward(plan),
            "loss": _loss(model, plan),
            "adafactor": _optimizer("Adafactor", "adafactor", plan),
            "sgd": _optimizer("SGD without momentum", "sgd", plan),
            "batch": list(_smaller_batches(run, plan)),
            "gpus": list(_more_gpus(plan)),
            "offload": _offload(plan),
        }
    )


def of_serving(run: Workload, plan: Serving) -> Options:
    """Return the changes that could be made in serving, in the order of this module; the ``plan`` is resolved."""
    kv = plan.kv in PLAIN_CACHES
    slow = run.kernel not in (AUTO, "flash", "efficient")
    halved = plan.kv == "fp32" and not plan.weights
    return Options(
        {
            "kernel": [Change("flash attention", {"kernel": "flash"})] if slow else [],
            "paged": [Change("paged KV cache", {"cache": "paged"})] if plan.cache != "paged" else [],
            "bf16": [Change("weights and cache in bf16", {"weights": "bf16", "kv": "bf16"}, "bf16")] if halved else [],
            **{
                name: [Change(f"weights in {name}", {"weights": name}, name)] if plan.weights != name else []
                for name in ("int8", "int4")
            },
            "kv": [Change("KV cache in fp8", {"kv": "fp8"}, "fp8 KV cache")] if kv else [],
            "context": [
                Change(f"context {size:,}", {"context": size}, reduces_request=True)
                for size in _halves(value_of(plan.context or 0), MULTIPLE)
                if size >= SHORTEST
            ],
            "concurrency": [
                Change(f"{size:,} request{'s' if size > 1 else ''}", {"concurrency": size}, reduces_request=True)
                for size in _halves(value_of(plan.concurrency))
            ],
        }
    )


def at_rest(storage: StoredFormat) -> Options:
    """Formats of fewer bits; where one for all tensors was asked for, others of that kind."""
    if storage.dtype != AUTO:
        others = (name for name in ("bf16", "int8", "int4") if name != storage.dtype)
        return Options({name: [Change(f"weights in {name}", {"dtype": name})] for name in others})
    names = (name for name in ("bf16", "int8", "nf4", "q4_k_m", "q2_k") if name != storage.weights)
    return Options({name: [Change(f"weights in {name}", {"weights": name})] for name in names})


def _kernels(model: Model, run: Workload, plan: Training) -> list[Change]:
    """The kernel that sdpa would take, where another was asked for that stores the scores."""
    if run.fused or run.kernel == AUTO or plan.backend == "megatron":
        return []
    own = resolve_run(model, run.replaced(kernel=AUTO), plan).kernel
    return [Change(f"{own} attention", {"kernel": own})] if own in ("flash", "efficient") else []


def _checkpointing(model: Model, run: Workload, plan: Training) -> list[Change]:
    """Checkpointing of attention alone, unless its kernel saves no scores anyway, then of all layers."""
    selective = Change("selective checkpointing", {"recompute": "selective"})
    full = Change("gradient checkpointing", {"recompute": "full"}, "checkpointing")
    fused = plan.backend != "megatron" and resolve_run(model, run, plan).fused
    return {"none": [full] if fused else [selective, full], "full": []}.get(run.recompute, [full])


def _precisions(plan: Training) -> list[Change]:
    """Weights, gradients and moments in 16 bits, where some of them have 32."""
    by = precision(plan.precision)
    pure = "fp16" if by.compute == "fp16" else "bf16"
    return [] if by.name in ("bf16", "fp16") else [Change(f"{pure} throughout", {"precision": pure}, pure)]


def _lora(model: Model, plan: Training) -> list[Change]:
    """Adapters (LoRA) for a checkpoint that is fine-tuned."""
    fine_tuned = isinstance(model, HFModel) and plan.lora is None
    return [Change(f"LoRA r={RANK}", {"lora": RANK})] if fine_tuned else []


def _qlora(model: Model, plan: Training) -> list[Change]:
    if plan.base_weights or not isinstance(model, HFModel):
        return []
    rank = RANK if plan.lora is None else value_of(plan.lora)
    return [Change(f"QLoRA r={rank}", {"lora": rank, "base_weights": QUANTIZED})]


def _in_backward(plan: Training) -> list[Change]:
    """Optimizer in backward, where one GPU steps what it has just computed, and nothing is added up."""
    steps = plan.optimizer != "none" and not precision(plan.precision).master and plan.backend != "megatron"
    alone = plan.size("gpus") == 1 and plan.grad_accum == 1 and plan.offload == "none"
    if plan.optimizer_in_backward or not (steps and alone):
        return []
    return [Change("optimizer in backward", {"optimizer_in_backward": True})]


def _loss(model: Model, plan: Training) -> list[Change]:
    """Loss of a few tokens at a time, so that the logits of all are never live at once."""
    own = isinstance(model, HFModel) and plan.loss == AUTO and plan.backend in (AUTO, "transformers")
    return [Change("chunked loss", {"loss": "checkpointed"})] if own else []


def _optimizer(name: str, option: str, plan: Training) -> list[Change]:
    less = plan.optimizer not in STATELESS and not plan.optimizer.startswith(option)
    return [Change(name, {"optimizer": option})] if less else []


def _offload(plan: Training) -> list[Change]:
    if plan.offload != "none" or plan.optimizer in STATELESS:
        return []
    return [Change("optimizer offloaded to the CPU", {"offload": "optimizer"}, "CPU offload")]


def _smaller_batches(run: Workload, plan: Training) -> Iterator[Change]:
    """Half as much at once, a quarter, …: the largest divisor of the batch that is no more."""
    batch, steps = value_of(run.batch_size), value_of(plan.grad_accum)
    sizes = divisors(batch)
    for micro in dict.fromkeys(sizes[bisect(sizes, most) - 1] for most in _halves(batch)):
        times = steps * (batch // micro)
        yield Change(
            f"batch {micro:,} with gradient accumulation",
            {"batch_size": micro, "grad_accum": times},
            f"batch {micro:,}",
        )


def _halves(number: int, multiple: int = 1) -> Iterator[int]:
    """Half of it, a quarter, …, each rounded down to a multiple."""
    while (number := number // 2) >= multiple:
        yield number // multiple * multiple


def _more_gpus(plan: Training) -> Iterator[Change]:
    """A further stage of ZeRO over the GPUs that there are, then its last stage over more; of QLoRA, stage 2."""
    least, of_a_copy = value_of(plan.size("gpus")), value_of(plan.model_parallel)
    stages = STAGES[:2] if plan.base_weights else STAGES
    if plan.data_parallel != 1:
        for stage in stages:
            if stage > plan.zero:
                yield Change(f"ZeRO-{stage}", {"zero": stage})
    for gpus in GPUS:
        if gpus > least and gpus % of_a_copy == 0:
            called = "FSDP" if plan.layout.startswith("fsdp") else f"ZeRO-{stages[-1]}"
            more = {} if plan.zero == stages[-1] else {"zero": stages[-1]}
            yield Change(f"{gpus} GPUs, {called}", {"gpus": gpus, **more})


LISTED = 6
"""So many remedies are listed at most."""

Need = Callable[[Change], int | None]
"""The bytes with a change; None where it does not go with the rest."""


class Remedy(NamedTuple):
    """Changes made together, mostly one, and the bytes of the peak with them."""

    changes: Changes
    total: int

    @property
    def change(self) -> Change:
        """Changes of the remedy, all of them as one."""
        return together(self.changes)


class Room(NamedTuple):
    """Bytes that there are, and how many of them should stay free."""

    budget: int
    margin: int = 0

    def holds(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget."""
        return total <= self.budget

    def tight(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget, but leave less than the margin."""
        return self.budget - self.margin < total <= self.budget


def remedies(ways: Options, combined: Sequence[str], need: Need, room: Room, *least: Need) -> list[Remedy]:
    """Single changes that fit; where none does with the margin to spare, those ``combined`` by two, then by three.

    What gives less than was asked for is not enough either to leave out the latter.
    Of the same changes by degrees the least that fits with the margin stands for all. Those that fit tightly come last.
    Where nothing fits so, all changes together that help, without those that it fits without; or what comes closest.
    ``least`` are lower bounds of the need, that found soonest first.
    """
    search = _RemedySearch(need, least, room)
    found: list[Remedy] = []
    for tier in ways.tiers(*combined):
        for group in tier:
            found += search.first(group)
            roomy = [remedy for remedy in found if not room.tight(remedy.total)]
            if len(roomy) == LISTED:
                return roomy
        if any(not room.tight(remedy.total) and not remedy.change.reduces_request for remedy in found):
            break
    if found:
        return sorted(found, key=lambda remedy: room.tight(remedy.total))[:LISTED]
    furthest = search.furthest(ways.furthest)
    if furthest and room.holds(furthest.total):
        return [search.gentlest(search.fewer(furthest), ways)]
    return [furthest] if furthest else []


def together(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    first, *others = changes
    return sum(others, start=first)


class _RemedySearch:
    def __init__(self, need: Need, least: Sequence[Need], room: Room) -> None:
        self.need, self.least, self.room = need, least, room

    def first(self, group: Group) -> Iterator[Remedy]:
        """The first of a group that fits with the margin, or else tightly; none where the furthest does not fit."""
        if not any(self.fitting(group[-1:])):
            return
        fitting = list(self.until_roomy(group))
        yield fitting[-1] if not self.room.tight(fitting[-1].total) else fitting[0]

    def until_roomy(self, group: Iterable[Changes]) -> Iterator[Remedy]:
        """Yield the remedies that fit, up to the first that leaves the margin."""
        for remedy in self.fitting(group):
            yield remedy
            if not self.room.tight(remedy.total):
                return

    def fitting(self, sets: Iterable[Changes]) -> Iterator[Remedy]:
        """Yield the remedies that fit; the need is found only where no lower bound rules them out."""
        for changes in sets:
            total = self.within(together(changes))
            if total is not None:
                yield Remedy(changes, total)

    def within(self, change: Change) -> int | None:
        """The need, if it is within the budget."""
        total = None
        for need in (*self.least, self.need):
            total = need(change)
            if total is None or not self.room.holds(total):
                return None
        return total

    def furthest(self, changes: Sequence[Change]) -> Remedy | None:
        """Return all changes that go together and take something off, the last first; None where none goes at all."""
        found: Remedy | None = None
        for change in reversed(changes):
            several = (change, *(found.changes if found else ()))
            if all(change.compatible_with(other) for other in several[1:]):
                total = self.need(together(several))
                if total is not None and (found is None or total < found.total):
                    found = Remedy(several, total)
        return found

    def fewer(self, found: Remedy) -> Remedy:
        """Return the remedy without those of its changes that it fits without."""
        for change in found.changes:
            rest = tuple(each for each in found.changes if each is not change)
            found = next(self.fitting([rest] if rest else []), found)
        return found

    def gentlest(self, found: Remedy, ways: Options) -> Remedy:
        """Return the remedy with each change by the least degree that it fits with."""
        for place, change in enumerate(found.changes):
            before, after = found.changes[:place], found.changes[place + 1 :]
            degrees = next(degrees for degrees in ways.known.values() if change in degrees)
            found = next(self.fitting((*before, degree, *after) for degree in degrees), found)
        return found
