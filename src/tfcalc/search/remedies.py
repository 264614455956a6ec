"""Changes that make it take less memory, in the order of what they cost.

=============  ==============================================================================================
nothing lost   kernels that store no scores, losses without all logits, expandable segments, a paged cache, the
               optimizer's step in backward, model states shared among the GPUs that there are (ZeRO, FSDP)
compute        gradient checkpointing, smaller batches with gradient accumulation
transfers      activations, optimizer and weights in the host's memory
quality        fewer bits, optimizers that keep less, adapters (LoRA, QLoRA)
hardware       more GPUs
request        less than was asked for: a shorter context, fewer requests
=============  ==============================================================================================
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields
from math import prod
from typing import TYPE_CHECKING, TypeVar

from tfcalc.backends import WITH_LOSSES, backend
from tfcalc.configs.published import HFModel
from tfcalc.core.number import divisors
from tfcalc.core.traced import ends_within, value_of
from tfcalc.defaults import resolve_run, usual_stage
from tfcalc.dimensions import Described, choice, described, facet, text
from tfcalc.hardware import NODE
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import COMPUTED
from tfcalc.plans import AWAKE, COLOCATE, DPO, EXPANDABLE, LAYOUT, SFT
from tfcalc.search.gpus import FITS, FITTING, NO, SERVING_GPUS, TIGHT, Room
from tfcalc.serving.caches import CELLS, PAGED
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
GPUS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
FSDP = {"zero": "3", "layout": "fsdp2"}
ZERO_3 = {"zero": "3"}
"""How preference and policy training shares all states: FSDP's phases beside a step are not known."""
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
    """Fields of the workload or of the plan that get other values; ``name`` says it alone, ``short`` beside others."""

    name: str
    values: Mapping[str, object]
    short: str = ""

    def __add__(self, other: object) -> Change:
        """Return both changes as one."""
        assert isinstance(other, Change), "changes are added to changes"
        name = f"{self.short or self.name} + {other.short or other.name}"
        return Change(name, {**self.values, **other.values}, name)

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
        if "lora" in values and (quantized := values.get("base_weights")) in (QUANTIZED, ""):
            found.append(f"--{'qlora' if quantized else 'lora'} {values.pop('lora')}")
            del values["base_weights"]
        stage_given = any(
            getattr(one, "zero", AUTO) not in (AUTO, "0") for one in described
        )  # which --fsdp contradicts
        if FSDP.items() <= values.items() and not stage_given:
            found.append("--fsdp")
            del values["layout"], values["zero"]
        switches = [known[name].split("/")[0] for name, value in values.items() if value is True]
        others = (f"{known[name]} {value}" for name, value in values.items() if value is not True)
        return (*found, *switches, *others)


Changes = tuple[Change, ...]
"""Those that are made together."""
NOTHING, COMPUTE, TRANSFERS, QUALITY, HARDWARE, REQUEST = range(6)
"""What a change costs, the least first."""


class Degrees(NamedTuple):
    """Change by its ``degrees``, the least first, that which goes furthest last; and what it costs."""

    cost: int
    degrees: Changes


class Options:
    """The changes that there are, in the order of what they cost, by what they are called here.

    The least degree of ``tight_too`` that fits tightly is told beside that which fits with room to spare. ``instead``
    are other degrees of some, which are tried where nothing fits with their own.
    """

    def __init__(
        self,
        known: Mapping[str, tuple[int, Sequence[Change]]],
        tight_too: str = "",
        instead: Mapping[str, Sequence[Change]] | None = None,
    ) -> None:
        found = {name: Degrees(cost, tuple(degrees)) for name, (cost, degrees) in known.items() if degrees}
        self.tight_too = found.get(tight_too)
        self.known = dict(sorted(found.items(), key=lambda item: item[1].cost))
        other = {name: Degrees(found[name].cost, tuple(some)) for name, some in (instead or {}).items() if some}
        self.with_others = [other.get(name, degrees) for name, degrees in self.known.items()] if other else []
        self.all = (*self.known.values(), *other.values())

    def __iter__(self) -> Iterator[Degrees]:
        return iter(self.known.values())

    def without(self, cost: int) -> Options:
        """Return all changes but those that cost this."""
        less = copy(self)
        less.known = {name: degrees for name, degrees in self.known.items() if degrees.cost != cost}
        less.with_others = [degrees for degrees in self.with_others if degrees.cost != cost]
        return less

    def in_order(self, changes: Changes) -> Changes:
        """Return the changes in the order of their groups."""
        return tuple(change for group in self.all for change in changes if change in group.degrees)

    def cost(self, changes: Changes) -> int:
        """Return the cost of the dearest of these changes."""
        return max(group.cost for group in self.all for change in changes if change in group.degrees)


NOT_IN_MEGATRON = ("8-bit", "qlora", "adafactor")
"""Changes that Megatron-LM's ``--optimizer`` and its layers have no option for."""


def of_training(model: Model, run: Workload, plan: Training) -> Options:
    """Return the changes that could be made in training; ``run`` and ``plan`` are resolved."""
    known = _of_training(model, run, plan)
    return Options(
        {name: known[name] for name in known if not (plan.megatron and name in NOT_IN_MEGATRON)},
        tight_too="gpus",
        instead={"sharing": _by_pieces(_sharing(plan), plan), "gpus": _by_pieces(_more_gpus(plan), plan)},
    )


def _of_training(model: Model, run: Workload, plan: Training) -> Mapping[str, tuple[int, Sequence[Change]]]:
    return {
        "kernel": (NOTHING, _kernels(model, run, plan)),
        "fused": (
            NOTHING,
            [Change("fused AdamW", {"optimizer": "adamw-fused"})] if plan.optimizer in ADAM[:3] else [],
        ),
        "loss": (NOTHING, _loss(model, plan)),
        "segments": (NOTHING, _segments(plan)),
        "reference": (NOTHING, _reference(plan)),
        "sleep": (TRANSFERS, _asleep(plan)),
        "in-backward": (NOTHING, _in_backward(plan)),
        "sharing": (NOTHING, list(_sharing(plan))),
        "checkpointing": (COMPUTE, _checkpointing(model, run, plan)),
        "batch": (COMPUTE, list(_smaller_batches(run, plan))),
        "activations": (TRANSFERS, _activations(plan)),
        "offload": (TRANSFERS, list(_offload(plan))),
        "8-bit": (
            QUALITY,
            [Change(name, {"optimizer": of}) for name, of in EIGHT_BITS] if plan.optimizer in ADAM else [],
        ),
        "precision": (QUALITY, _precisions(plan)),
        "lora": (QUALITY, _lora(model, plan)),
        "qlora": (QUALITY, _qlora(model, plan)),
        "adafactor": (QUALITY, _optimizer("Adafactor", "adafactor", plan)),
        "sgd": (QUALITY, _optimizer("SGD without momentum", "sgd", plan)),
        "gpus": (HARDWARE, list(_more_gpus(plan))),
    }


def _by_pieces(changes: Iterable[Change], plan: Training) -> list[Change]:
    """Return ZeRO-3 in the place of FSDP: it has no root unit beside the layer that it gathers.

    It does not share quantized weights: their adapters are then trained over those of the checkpoint.
    """
    called, whole = "ZeRO-3", dict[str, object]()
    if plan.base_weights:
        called, whole = f"{called}, and LoRA in the place of --qlora", {"lora": plan.lora, "base_weights": ""}
    return [
        Change(
            each.name.replace("FSDP", called),
            {name: of for name, of in each.values.items() if name != "layout"} | whole,
        )
        for each in changes
        if FSDP.items() <= each.values.items()
    ]


def of_layout(run: Workload, plan: Training, stages: Sequence[int], *, shares_tokens: bool) -> Options:
    """Return the changes of a training step that leave its layout as it is; ``run`` and ``plan`` are resolved.

    ``stages`` of ZeRO are those that could be taken; GPUs of tensor parallelism may share the tokens already.
    """
    further = (str(stage) for stage in stages if stage > int(plan.zero))
    again = Change("gradient checkpointing", {"recompute": "full"}, "checkpointing")
    tokens = Change("sequence parallelism", {"sequence_parallel": True})
    return Options(
        {
            "tokens": (NOTHING, [] if shares_tokens else [tokens]),
            "sharing": (NOTHING, [Change(f"ZeRO-{stage}", {"zero": stage}) for stage in further]),
            "checkpointing": (COMPUTE, [] if run.of_flops.recompute == "full" else [again]),
            "batch": (COMPUTE, list(_smaller_batches(run, plan))),
        }
    )


GGUF = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
"""File types of llama.cpp that are proposed, those of most bits first."""


def _fewer_layers(plan: Serving, count: int) -> Iterator[Change]:
    """A part of the layers on the card, the others in RAM."""
    asked = min(value_of(plan.gpu_layers or 0), count)
    for there in range(asked - 1, 0, -1):
        yield Change(f"{there} of {count} layers on the card", {"gpu_layers": there}, f"{there} layers")


def of_serving(run: Workload, plan: Serving, *, pages: bool = True, count: int = 0) -> Options:
    """Return the changes that could be made in serving; the ``plan`` is resolved.

    ``pages``: whether an engine with a paged cache could answer the same question, which has kernels of its own. Of
    ``count`` layers, the head among them, some may be in RAM (llama.cpp).
    """
    kv = plan.kv in PLAIN_CACHES
    gguf = plan.cache == CELLS
    caches, formats = (("q8_0", "q4_0"), GGUF) if gguf else (("fp8",), ("int8", "int4"))
    paged = plan.cache == PAGED
    more = list(_more_gpus_that_serve(plan)) if paged or (pages and not gguf) else []
    slow = run.kernel not in (AUTO, "flash", "efficient")
    halved = plan.kv == "fp32" and not plan.weights
    return Options(
        {
            "kernel": (NOTHING, [Change("flash attention", {"kernel": "flash"})] if slow else []),
            "paged": (
                NOTHING,
                [Change("paged KV cache", {"cache": "paged"})] if not gguf and not paged and pages else [],
            ),
            "bf16": (
                QUALITY,
                [Change("weights and cache in bf16", {"weights": "bf16", "kv": "bf16"}, "bf16")] if halved else [],
            ),
            "kv": (
                QUALITY,
                [Change(f"KV cache in {name}", {"kv": name}, f"{name} KV cache") for name in caches] if kv else [],
            ),
            "layers": (TRANSFERS, list(_fewer_layers(plan, count)) if gguf else []),
            "weights": (
                QUALITY,
                [Change(f"weights in {name}", {"weights": name}, name) for name in _fewer_bits(plan.weights, formats)],
            ),
            "gpus": (HARDWARE, more),
            "context": (
                REQUEST,
                [
                    Change(f"context {size:,}", {"context": size})
                    for size in _halves(value_of(plan.context or 0), MULTIPLE)
                    if size >= SHORTEST
                ],
            ),
            "concurrency": (
                REQUEST,
                [
                    Change(f"{size:,} request{'s' if size > 1 else ''}", {"concurrency": size})
                    for size in _halves(value_of(plan.concurrency))
                ],
            ),
        },
        tight_too="gpus",
    )


def _more_gpus_that_serve(plan: Serving) -> Iterator[Change]:
    """More GPUs, by the usual layout; where one was asked for, with each layer over those of a server."""
    given = plan.asked_layout
    least = max(value_of(given.get("gpus", 1)), prod(value_of(given.get(name, 1)) for name in LAYOUT[1:-1]))
    for gpus in SERVING_GPUS:
        if gpus > least:
            shared = min(gpus, NODE)
            by_hand = {"tensor_parallel": shared, "pipeline_parallel": gpus // shared, "data_parallel": 1}
            more = {name: size for name, size in by_hand.items() if given.keys() & LAYOUT[1:-1]}
            yield Change(f"{gpus} GPUs", {"gpus": gpus, **more})


def _fewer_bits(given: str, formats: tuple[str, ...]) -> tuple[str, ...]:
    """Return those behind the given one; all of them where it is none of them."""
    return formats[formats.index(given) + 1 :] if given in formats else formats


def at_rest(storage: StoredFormat) -> Options:
    """Formats of fewer bits; where one for all tensors was asked for, others of that kind."""
    if storage.dtype != AUTO:
        others = _fewer_bits(storage.dtype, ("bf16", "int8", "int4"))
        return Options({name: (QUALITY, [Change(f"weights in {name}", {"dtype": name})]) for name in others})
    names = (name for name in ("bf16", "int8", "nf4", "q4_k_m", "q2_k") if name != storage.weights)
    return Options({name: (QUALITY, [Change(f"weights in {name}", {"weights": name})]) for name in names})


def _kernels(model: Model, run: Workload, plan: Training) -> list[Change]:
    """The kernel that sdpa would take, where another was asked for that stores the scores."""
    if run.fused or run.kernel == AUTO or plan.of_2022:
        return []
    own = resolve_run(model, run.replaced(kernel=AUTO), plan).kernel
    return [Change(f"{own} attention", {"kernel": own})] if own in ("flash", "efficient") else []


def _checkpointing(model: Model, run: Workload, plan: Training) -> list[Change]:
    """Checkpointing of attention alone, unless its kernel saves no scores anyway, then of all layers."""
    selective = Change("selective checkpointing", {"recompute": "selective"})
    full = Change("gradient checkpointing", {"recompute": "full"}, "checkpointing")
    fused = not plan.of_2022 and resolve_run(model, run, plan).fused
    return {"none": [full] if fused else [selective, full], "full": []}.get(run.recompute, [full])


def _precisions(plan: Training) -> list[Change]:
    """Weights, gradients and moments in 16 bits, where some of them have 32; Megatron-LM has fp32 copies of weights."""
    if plan.megatron:
        return []
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
    steps = plan.optimizer != "none" and not precision(plan.precision).master and not plan.megatron
    alone = plan.size("gpus") == 1 and plan.grad_accum == 1 and plan.offload == "none"
    if plan.optimizer_in_backward or not (steps and alone):
        return []
    return [Change("optimizer in backward", {"optimizer_in_backward": True})]


def _loss(model: Model, plan: Training) -> list[Change]:
    """Loss of a few tokens at a time, or by a fused kernel, so that the logits of all are never live at once."""
    if plan.method != SFT:
        return [Change("log-probabilities in tiles", {"loss": AUTO})] if plan.loss != AUTO else []
    if not isinstance(model, HFModel) or plan.loss != AUTO or WITH_LOSSES not in backend(plan.backend).compared:
        return []
    return [Change("chunked loss", {"loss": "checkpointed"}), Change("fused loss", {"loss": "fused"})]


def _reference(plan: Training) -> list[Change]:
    """Log-probabilities of a reference model that is freed before the other is trained."""
    if plan.method != DPO or plan.precompute_ref_log_probs:
        return []
    return [Change("reference log-probabilities before training", {"precompute_ref_log_probs": True})]


def _asleep(plan: Training) -> list[Change]:
    """Sleep of an engine on the same GPU, while the model is trained."""
    asleep = plan.vllm_mode != COLOCATE or plan.sleep != AWAKE
    return [] if asleep else [Change("vLLM asleep in training", {"sleep": "2"})]


def _segments(plan: Training) -> list[Change]:
    """Segments of PyTorch's allocator that grow, so that fragments take less."""
    if plan.alloc_conf == EXPANDABLE or plan.device != "cuda" or plan.megatron or plan.method != SFT:
        return []
    return [Change("expandable segments", {"alloc_conf": EXPANDABLE})]


def _optimizer(name: str, option: str, plan: Training) -> list[Change]:
    less = plan.optimizer not in STATELESS and not plan.optimizer.startswith(option)
    return [Change(name, {"optimizer": option})] if less else []


def _activations(plan: Training) -> list[Change]:
    """Inputs of checkpointed layers, in the host's memory."""
    if plan.offload_activations or plan.megatron:
        return []
    return [Change("activations offloaded", {"offload_activations": True}, "activation offload")]


def _offload(plan: Training) -> Iterator[Change]:
    """The optimizer in the host's memory, then all states, which is refused unless GPUs share the weights."""
    if plan.offload == "none" and plan.optimizer not in STATELESS:
        yield Change("optimizer offloaded to the CPU", {"offload": "optimizer"}, "CPU offload")
    if plan.offload != "all":
        yield Change("all states offloaded to the CPU", {"offload": "all"}, "CPU offload of all states")


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


def _sharing(plan: Training) -> Iterator[Change]:
    """A further stage of ZeRO among the GPUs that there are; the last is FSDP."""
    if plan.copies != 1 and not plan.megatron:
        asked = usual_stage(plan) if plan.zero == AUTO else plan.zero
        yield from (Change(f"ZeRO-{stage}", {"zero": stage}) for stage in ("1", "2") if stage > asked)
        if plan.zero != "3":
            yield Change("FSDP", FSDP) if plan.method == SFT else Change("ZeRO-3", ZERO_3)


def _more_gpus(plan: Training) -> Iterator[Change]:
    """More GPUs, twice as many each time, with the model's states shared among them."""
    least, of_a_copy = value_of(plan.size("gpus")), value_of(plan.model_parallel)
    shared = "FSDP" if plan.layout.startswith("fsdp") or (plan.zero != "3" and plan.method == SFT) else "ZeRO-3"
    more = {} if plan.zero == "3" else FSDP if plan.method == SFT else ZERO_3
    for gpus in GPUS:
        if gpus > least and gpus % of_a_copy == 0:
            yield Change(f"{gpus} GPUs, {shared}", {"gpus": gpus, **more})


MANY = 3
"""Of so many degrees of a change the last is tried first: where it is not enough, none is."""
LISTED, ENOUGH = 6, 3
"""This many remedies are listed at most; with this many no further changes are tried together."""

Need = Callable[[Change], int | None]
"""The bytes with a change; None where it does not go with the rest."""
Status = Callable[[Change], str]
"""State of the verdict with a change that is within the room."""


class Remedy(NamedTuple):
    """Changes made together, the bytes of the peak with them, and the state of the verdict."""

    changes: Changes
    total: int
    status: str

    @property
    def change(self) -> Change:
        """Changes of the remedy, all of them as one."""
        return together(self.changes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the changes."""
        return tuple(each.name for each in self.changes)

    @property
    def fits(self) -> bool:
        """Return whether it fits then."""
        return self.status in FITTING

    @property
    def tight(self) -> bool:
        """Return whether it leaves less than the margin."""
        return self.status == TIGHT


class Remedies(NamedTuple):
    """The ``found`` remedies, the cheapest first, or what comes closest; of as many plans as were ``tried``.

    ``furthest`` are the names of all changes that go with what was asked, each by the degree that goes furthest. A
    search that takes too long has not ``ended``: there may be others, and cheaper ones.
    """

    found: tuple[Remedy, ...] = ()
    tried: int = 0
    furthest: tuple[str, ...] = ()
    ended: bool = True


def remedies(
    ways: Options, need: Need, room: Room, *least: Need, status: Status | None = None, cheapest: bool = False
) -> Remedies:
    """Changes that make it fit, in the order of what they cost; where none does, all that help together.

    Each change is tried alone, by the least degree that fits with the margin. Then what costs no quality is tried
    together, each change of quality with all that costs less, and more GPUs with all that costs less, with and without
    those; of what fits so, all that it fits without is left out again. All changes of quality come together before the
    request is changed alone. As no change takes memory, nothing can fit where
    all changes together do not: then the closest is returned. ``least`` are lower bounds of the need, that found
    soonest first; what is within the room is judged by its ``status``. Models whose layers all differ run long: of them
    what was found by then is returned. Who wants the ``cheapest`` alone gets it sooner, as the first of fewer.
    """
    search, found = _RemedySearch(ways, need, least, room, status), list[Remedy]()
    ended = ends_within(MOST_UNITS, lambda: _search(search, found, cheapest=cheapest))
    if not ended and not any(one.fits for one in found):
        ends_within(MOST_UNITS // 3, lambda: found.extend(_all_together(search)))
    unlike = {frozenset(one.names): one for one in found}.values()
    found = sorted(unlike, key=lambda one: (one.tight, ways.cost(one.changes), len(one.changes)))
    return Remedies(tuple(found[:LISTED]), len(search.tried), tuple(search.furthest()), ended)


MOST_UNITS = 300_000
"""What a search may spend (:mod:`tfcalc.core.traced`), about half of what an answer may; and a third of it once more
for all that costs no quality, together, where nothing else was found."""


def _all_together(search: _RemedySearch) -> Iterator[Remedy]:
    """Yield all changes that cost no quality, if they fit: fewer of them may, too."""
    groups = [group for group in search.ways if group.cost <= TRANSFERS]
    for order in (groups, groups[::-1]):
        changes = search.strongest(order, ())
        one = search.judged(changes) if changes else None
        if one and one.fits:
            yield one._replace(changes=search.ways.in_order(changes))
            return


def _search(search: _RemedySearch, found: list[Remedy], *, cheapest: bool) -> None:
    """Append the remedies as they are found, or the closest; no further ones where the ``cheapest`` alone is wanted."""
    ways, need = search.ways, search.need
    by_cost = {cost: [group for group in ways if group.cost <= cost] for cost in range(REQUEST + 1)}
    for group in by_cost[TRANSFERS]:
        found.extend(search.first(group))
        if cheapest and _enough(found, of=1):
            return
    if not _enough(found, of=1):
        found += search.together(by_cost[TRANSFERS], [()])
        if cheapest and _enough(found, of=1):
            return
    found.extend(one for group in ways if group.cost > TRANSFERS for one in search.first(group))
    if cheapest and _enough([one for one in found if ways.cost(one.changes) <= QUALITY], of=1):
        return  # combinations cost as much, and are more changes
    alone = [one.changes[0] for one in found if len(one.changes) == 1 and not one.tight]
    for group in ways:
        if group.cost < QUALITY or any(one in group.degrees for one in alone) or _enough(found):
            continue
        goals = [(degree,) for degree in group.degrees]
        found += search.together(by_cost[min(group.cost - 1, TRANSFERS)], goals)
        if group.cost > QUALITY and not _enough(found, of=1):
            found += search.together(by_cost[group.cost - 1], goals)
    if found and not any(ways.cost(one.changes) <= QUALITY for one in found):
        found += search.together(by_cost[QUALITY], [()])  # before fewer tokens, or requests: those were asked for
    if not found:
        found += search.together(by_cost[REQUEST], [()])
    if not found:
        found += search.together(ways.with_others, [()])
    if not found:
        orders = [order for groups in (by_cost[REQUEST], ways.with_others) for order in (groups, groups[::-1])]
        both = [search.strongest(order, ()) for order in orders]
        needs = [(total, changes) for changes in both if changes and (total := need(together(changes))) is not None]
        for total, changes in sorted(needs, key=lambda each: each[0])[:1]:
            found.append(Remedy(changes, total, search.state(changes, total)))


def _enough(found: Sequence[Remedy], of: int = ENOUGH) -> bool:
    return sum(one.status == FITS for one in found) >= of


def together(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    first, *others = changes
    return sum(others, start=first)


class _RemedySearch:
    def __init__(self, ways: Options, need: Need, least: Sequence[Need], room: Room, status: Status | None) -> None:
        self.ways, self.need, self.least, self.room = ways, need, least, room
        self.status = status
        self.tried: dict[frozenset[str], int | None] = {}
        self._compatible: dict[frozenset[str], bool] = {}
        self._judged: dict[frozenset[str], Remedy] = {}

    def total(self, changes: Changes) -> int | None:
        """The need with these changes, or a lower bound of it beyond the room; None if they do not go together."""
        names = frozenset(each.name for each in changes)
        if names not in self.tried:
            change, total = together(changes), None
            for need in (*self.least, self.need):
                total = need(change)
                if total is None or not self.room.holds(total):
                    break
            self.tried[names] = total
        return self.tried[names]

    def compatible(self, changes: Changes) -> bool:
        """Return whether these changes go together, as far as what is found soonest tells: nothing runs for it."""
        names = frozenset(each.name for each in changes)
        if names not in self._compatible:
            known = self.tried[names] if names in self.tried else (*self.least, self.need)[0](together(changes))
            self._compatible[names] = known is not None
        return self._compatible[names]

    def furthest(self) -> Iterator[str]:
        """Names of the changes, each by the degree that goes furthest of those that were not always refused."""
        compared = {names: total is not None for names, total in self.tried.items()} | self._compatible
        going = {name for names, together in compared.items() if together for name in names}
        for group in self.ways:
            yield from [degree.name for degree in group.degrees if degree.name in going][-1:]

    def judged(self, changes: Changes) -> Remedy | None:
        """The changes, if they go together, with the state of the verdict."""
        total, names = self.total(changes), frozenset(each.name for each in changes)
        if total is None:
            return None
        if names not in self._judged:
            status = self.state(changes, total) if self.room.holds(total) else NO
            tight = status == FITS and self.room.tight(total)
            self._judged[names] = Remedy(changes, total, TIGHT if tight else status)
        return self._judged[names]

    def state(self, changes: Changes, total: int) -> str:
        """Return the state of the verdict with these changes, whose need is ``total``."""
        return self.room.status(total) if self.status is None else self.status(together(changes))

    def first(self, group: Degrees) -> Iterator[Remedy]:
        """The first of these that fits with the margin, or else tightly."""
        tight, last = None, None
        if len(group.degrees) >= MANY:
            if not self._within((group.degrees[-1],)):
                return  # nor does a lesser degree
            last = self.judged((group.degrees[-1],))
        for degree in group.degrees:
            one = self.judged((degree,))
            if one and one.status == FITS:
                yield from (tight, one) if tight and group is self.ways.tight_too else (one,)
                return
            tight = tight or (one if one and one.fits else None)
            if tight and last and last.tight:
                break  # nor does any fit with the margin
        if tight:
            yield tight

    def _within(self, changes: Changes) -> bool:
        """Return whether these changes go together, and their need is within the room."""
        total = self.total(changes)
        return total is not None and self.room.holds(total)

    def together(self, groups: Sequence[Degrees], goals: Sequence[Changes]) -> Iterator[Remedy]:
        """Yield the first goal that fits with all changes of these groups, with those of them that it needs."""
        for goal in goals:
            for order in (groups, groups[::-1]):
                changes = self.strongest(order, goal)
                found = self.judged(changes) if changes else None
                if found and found.fits:
                    least = self.gentlest(self.fewer(found, goal))
                    rest = tuple(change for change in least.changes if change not in goal)
                    if not (goal and rest and self._as_good(rest, least) is not least):
                        yield least._replace(changes=self.ways.in_order(least.changes))
                    return

    def strongest(self, groups: Sequence[Degrees], goal: Changes) -> Changes:
        """The goal with all that goes with it of these groups, each as far as it goes; nothing if it cannot be."""
        if goal and not self.compatible(goal):
            return ()
        found = goal
        for group in groups:
            for degree in reversed(group.degrees):
                if all(degree.compatible_with(other) for other in found) and self.compatible((*found, degree)):
                    found = (*found, degree)
                    break
        return found

    def fewer(self, found: Remedy, goal: Changes) -> Remedy:
        """Return the remedy without those of its changes that it fits without, the dearest first."""
        for change in sorted(found.changes, key=lambda one: -self.ways.cost((one,))):
            rest = tuple(each for each in found.changes if each is not change)
            if rest and change not in goal:
                found = self._as_good(rest, found)
        return found

    def gentlest(self, found: Remedy) -> Remedy:
        """Return the remedy with each change by the least degree that it fits with."""
        for place, change in enumerate(found.changes):
            before, after = found.changes[:place], found.changes[place + 1 :]
            degrees = next(group.degrees for group in self.ways.all if change in group.degrees)
            for degree in degrees[: degrees.index(change)]:
                less = self._as_good((*before, degree, *after), found)
                if less is not found:
                    found = less
                    break
        return found

    def _as_good(self, changes: Changes, found: Remedy) -> Remedy:
        """Return these changes, if they fit as well as what was found, or that."""
        total = self.total(changes)
        if total is None or (self.room.tight(total) and not found.tight):
            return found  # whatever an allocator would say
        less = self.judged(changes)
        return less if less and less.fits and (not less.tight or found.tight) else found
