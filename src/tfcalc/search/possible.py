"""Layouts that can be: what has to divide, each rule once, for a search and for who asks why a layout is not in it.

How modules are split is known to ``placed``, which is asked: what is listed is what ``ranks`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from tfcalc.core.number import divisors
from tfcalc.errors import InvalidModel
from tfcalc.hardware import NODE
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import Layout, PipelineEnds, ends_of, near_divisors
from tfcalc.placed.rules import on_device
from tfcalc.placed.schedules import schedule_of
from tfcalc.search.axes import Axes
from tfcalc.timing.rates import DEEPSPEED, FSDP, MEGATRON, OF_2022

if TYPE_CHECKING:
    from tfcalc.nn.module import Module
    from tfcalc.timing.step import Layouts
    from tfcalc.timing.work import ModelWork

FLAGS = {name: f"--{name.replace('_', '-')}" for name in Axes._fields}
"""Options of the axes."""
LACKS = {DEEPSPEED: ("vpp", "cp"), OF_2022: ("zero", "cp")}
"""Axes that a stack does not have: interleaving, context parallelism, stages of ZeRO from 2 on.

Source: DeepSpeed's runtime/pipe/schedule.py (``TrainSchedule``) of 2022; Megatron-LM v3.0, whose
``--use-distributed-optimizer`` shares the optimizer's states alone.
"""


class Space(NamedTuple):
    """Space of a search.

    Attributes:
        work: the model's work.
        module: the model, of which rules say how it is split.
        gpus: GPUs in all.
        sequences: sequences of a step.
        fixed: values of the axes that were given.
        domain: GPUs with fast links among them; more tensor parallelism is tried where it is given.
        stack: whose code runs.
        modules: modules that backward runs again, of ``core.recomputation.MODULES``.
    """

    work: ModelWork
    module: Module
    gpus: int
    sequences: int
    fixed: Axes
    domain: int = NODE
    stack: str = MEGATRON
    modules: tuple[str, ...] = ()

    @property
    def sequence_parallel(self) -> bool:
        """Return whether GPUs of tensor parallelism share the hidden vectors of all tokens."""
        return self.stack != DEEPSPEED

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 1 without."""
        return max((layer.experts.number for layer in self.work.layers if layer.experts), default=1)

    @property
    def heads(self) -> int:
        """Attention heads of a layer; 0 without."""
        return max((round(layer.scores / self.work.length**2) for layer in self.work.layers), default=0)


def layers_of_stage(copies: Sequence[int], at: Layout) -> tuple[int, ...]:
    """Return how many layers of each kind a stage has; the kinds follow one another, in these ``copies``.

    >>> layers_of_stage([3, 58], Layout(pp=8, stage=0, first_layers=7, last_layers=6))
    (3, 4)
    """
    return _of_kinds(copies, at.places(sum(copies)))


def _of_kinds(copies: Sequence[int], places: Sequence[int]) -> tuple[int, ...]:
    """Return how many layers of each kind are at these places."""
    starts = [0, *accumulate(copies)]
    return tuple(sum(low <= place < high for place in places) for low, high in pairwise(starts))


def are_uneven(depth: int, pp: int, vpp: int) -> bool:
    """Return whether a stage's layers do not divide over its chunks."""
    ends = ends_of(depth, pp)
    return vpp > 1 and (ends is None or vpp not in ends.chunks(depth, pp))


def uneven_chunks(depth: int, number: int) -> list[range]:
    """Return the places of the layers of each chunk, of all stages in the order that a batch runs through them.

    The embedding and the loss count as a layer each, as layouts of Megatron-core do that were published
    (``pipeline_model_parallel_layout``); the first chunks have one more than the others.

    >>> [len(chunk) for chunk in uneven_chunks(61, 16)][-3:], uneven_chunks(61, 16)[0]
    ([4, 4, 2], range(0, 3))
    """
    size, more = divmod(depth + 2, number)
    ends = [0, *(size * (chunk + 1) + min(chunk + 1, more) - 1 for chunk in range(number))]
    return [range(low, min(high, depth)) for low, high in pairwise(ends)]


class PipelineStages(NamedTuple):
    """Layers of each kind on the first stage, on one between, and on the last one.

    Of the stages between it is the first of those with most parameters, which has most micro-batches in flight, with
    its number; there are none where there are no three stages.
    """

    layers: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    between: int


def stages_of(space: Space, pp: int, vpp: int) -> PipelineStages | None:
    """Return the stages that may be the fullest; None where all have as many layers of each kind."""
    kinds = space.work.layers
    return _stages(tuple((layer.copies, layer.params_of_all) for layer in kinds), pp, vpp)


@cache
def _stages(kinds: tuple[tuple[int, int], ...], pp: int, vpp: int) -> PipelineStages | None:
    copies = [number for number, _ in kinds]
    depth = sum(copies)
    ends = ends_of(depth, pp) if pp <= depth else None
    uneven = are_uneven(depth, pp, vpp)
    if ends is None or (len(kinds) == 1 and depth % pp == 0 and not uneven):
        return None
    at = _with_ends(Layout(pp=pp, vpp=vpp), ends)

    def on(stage: int) -> tuple[int, ...]:
        if uneven:
            chunks = uneven_chunks(depth, pp * vpp)[stage::pp]
            return _of_kinds(copies, [place for chunk in chunks for place in chunk])
        return layers_of_stage(copies, at._replace(stage=stage))

    def params(stage: int) -> int:
        return sum(copies * each for copies, (_, each) in zip(on(stage), kinds, strict=True))

    fullest = max(range(1, pp - 1), key=params, default=None)
    between = (0,) * len(kinds) if fullest is None else on(fullest)
    return PipelineStages((on(0), between, on(pp - 1)), fullest or 1)


def _with_ends(at: Layout, ends: PipelineEnds) -> Layout:
    return at._replace(
        counts_embedding=ends.counts_embedding,
        counts_loss=ends.counts_loss,
        first_layers=ends.first,
        last_layers=ends.last,
    )


def placed(at: Layouts, space: Space) -> Layout:
    """Return one layout as ``ranks`` takes it."""
    ends = ends_of(space.work.depth, at.pp) or PipelineEnds(1)
    here = Layout(
        tp=at.tp,
        sequence_parallel=space.sequence_parallel and at.tp > 1,
        pp=at.pp,
        vpp=at.vpp,
        cp=at.cp,
        dp=at.dp,
        ep=at.ep,
        etp=at.etp if space.experts > 1 else None,
    )
    return _with_ends(here, ends)


class Possible:
    """The rules of one space, level by level. Each raises InvalidModel for what cannot be."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.holds = cache(self._holds)
        self.split: Callable[..., InvalidModel | None] = cache(self._split)

    def _holds(self, rule: Callable[..., None], *values: int) -> bool:
        try:
            rule(*values)
        except InvalidModel:
            return False
        return True

    @property
    def unruled(self) -> str:
        """Modules that no rule splits, in words; with such, what divides is checked by the model's sizes alone."""
        found = self.split()
        return "" if found is None else found.message

    def _split(self, tp: int = 1, cp: int = 1, ep: int = 1, etp: int = 1) -> InvalidModel | None:
        """Return why the modules cannot be split so; None where they can."""
        space = self.space
        at = Layout(tp=tp, sequence_parallel=space.sequence_parallel and tp > 1, cp=cp, dp=ep * etp)
        try:
            on_device(space.module, at._replace(ep=ep, etp=etp) if space.experts > 1 else at)
        except InvalidModel as error:
            return error
        return None

    # --- levels of the search, each with what the levels above have chosen

    def tensor(self, tp: int) -> None:
        """GPUs that share each layer."""
        check_divides("GPUs", self.space.gpus, FLAGS["tp"], tp)
        if self.unruled and self.space.heads:
            check_divides("attention heads", self.space.heads, FLAGS["tp"], tp)
        self._check_split(tp=tp)

    def _check_split(self, **degrees: int) -> None:
        if not self.unruled and (error := self.split(**degrees)) is not None:
            raise error

    def pipeline(self, tp: int, pp: int) -> None:
        """Stages: every one has layers, and none more than it has to."""
        space, depth = self.space, self.space.work.depth
        check_divides("GPUs", space.gpus, _product(tp=tp, pp=pp), tp * pp)
        if pp > depth or ends_of(depth, pp) is None:
            near = [one for one in divisors(space.gpus // tp) if one <= depth and ends_of(depth, one)]
            fact = f"{depth} layers do not fill {pp:,} stages, of which the ends alone may have fewer"
            fact = f"{FLAGS['pp']} {pp:,} is more than the model's {depth} layers" if pp > depth else fact
            raise InvalidModel(fact, f"nearest: {', '.join(map(str, _both_sides(near, pp)))}")

    def chunks(self, pp: int, vpp: int) -> None:
        """Interleaving of a stage's layers; where somebody asks for it, in chunks of which some have one layer less."""
        self._of_stack("vpp", vpp)
        if pp == 1 and vpp > 1:
            raise InvalidModel(f"{FLAGS['vpp']} {vpp:,} has no effect on a pipeline of one stage", "leave it out")
        ends = ends_of(self.space.work.depth, pp)
        known_ones = ends.chunks(self.space.work.depth, pp) if ends else [1]
        written = self._written("pp", pp) and self._written("vpp", vpp)
        if vpp not in known_ones and not (written and pp * vpp <= self.space.work.depth):
            near = ", ".join(map(str, _both_sides(known_ones, vpp)))
            raise InvalidModel(f"a stage's layers do not make {FLAGS['vpp']} {vpp:,} chunks", f"nearest: {near}")

    def _written(self, name: str, value: int) -> bool:
        """Return whether this value of an axis was asked for by itself."""
        asked = getattr(self.space.fixed, name) or ()
        return not isinstance(asked, range) and value in asked

    def context(self, tp: int, pp: int, cp: int) -> None:
        """GPUs that share each sequence: each has a part from the front, and one from the back."""
        length = self.space.work.length
        check_divides("GPUs", self.space.gpus, _product(tp=tp, pp=pp, cp=cp), tp * pp * cp)
        self._of_stack("cp", cp)
        if cp > 1:
            check_divides("tokens of a sequence", length, f"twice {FLAGS['cp']}", 2 * cp)
            if not self._written("cp", cp):
                self._check_split(cp=2)  # any number is like two; where it is asked for, sizes alone decide
        if tp > 1 and self.space.sequence_parallel:
            check_divides("tokens of a GPU's sequence", length // cp, FLAGS["tp"], tp)

    def batch(self, dp: int) -> None:
        """Copies of the model share the batch."""
        if self.space.sequences % dp:
            near = " or ".join(f"{one:,}" for one in _multiples(self.space.sequences, dp))
            fact = f"a batch of {self.space.sequences:,} sequences is not divisible by {dp:,} copies"
            raise InvalidModel(fact, f"nearest: {near}")

    def groups_of_experts(self, ep: int, etp: int) -> None:
        """Groups of GPUs that share the experts, and GPUs that share each."""
        if self.space.experts == 1 and ep * etp > 1:
            flag, number = (FLAGS["ep"], ep) if ep > 1 else (FLAGS["etp"], etp)
            raise InvalidModel(f"{flag} {number:,} has no effect on a model without experts", "leave it out")
        check_divides("experts", self.space.experts, FLAGS["ep"], ep)
        self._check_split(ep=ep, etp=etp)

    def experts(self, of_a_stage: int, ep: int, etp: int) -> None:
        """The GPUs of a stage share the experts."""
        check_divides("GPUs of a stage", of_a_stage, _product(ep=ep, etp=etp), ep * etp)

    def micro_batch(self, dp: int, micro_batch: int) -> None:
        """Sequences at once."""
        check_divides("sequences of a copy", self.space.sequences // dp, FLAGS["micro_batch"], micro_batch)

    def schedule(self, pp: int, vpp: int, batches: int) -> None:
        """Order of the pipeline's work."""
        if pp > 1:
            schedule_of(vpp).check(pp, batches, vpp)

    def sharding(self, pp: int, dp: int, zero: int, replicas: int, ep: int = 1) -> None:
        """Shards, and replicas of them."""
        check_sharding(self.space.stack, pp, zero, replicas, ep)
        check_divides("GPUs that share the batch", dp, FLAGS["replicas"], replicas)

    def _of_stack(self, axis: str, value: int) -> None:
        check_axis(self.space.stack, axis, value)

    def check(self, at: Layouts) -> None:
        """Raise InvalidModel for the first rule that one layout breaks."""
        self.tensor(at.tp)
        self.pipeline(at.tp, at.pp)
        self.chunks(at.pp, at.vpp)
        self.context(at.tp, at.pp, at.cp)
        if at.gpus != self.space.gpus:
            made = f"tp {at.tp:,} x pp {at.pp:,} x cp {at.cp:,} x dp {at.dp:,} = {at.gpus:,} GPUs"
            raise InvalidModel(
                f"{made}, and there are {self.space.gpus:,}",
                f"nearest: dp={self.space.gpus // (at.tp * at.pp * at.cp)}",
            )
        self.batch(at.dp)
        self.groups_of_experts(at.ep, at.etp)
        self.experts(at.tp * at.cp * at.dp, at.ep, at.etp)
        self.micro_batch(at.dp, at.micro_batch)
        self.schedule(at.pp, at.vpp, at.batches)
        copies = at.dp * at.cp
        self._of_stack("zero", at.zero)
        self.sharding(at.pp, at.dp, at.zero, 1 if at.shards is None else copies // at.shards, at.ep)

    def check_values(self) -> None:
        """Raise InvalidModel for a value that was given and that no layout can have, whatever its other axes.

        Of a range those are passed over.
        """
        fixed = self.space.fixed
        checks: dict[str, Callable[[int], None]] = {
            "tp": self.tensor,
            "pp": lambda one: self.pipeline(1, one),
            "vpp": lambda one: self._of_stack("vpp", one),
            "cp": lambda one: self.context(1, 1, one),
            "ep": lambda one: self.groups_of_experts(one, 1),
            "etp": lambda one: self.groups_of_experts(1, one),
            "micro_batch": lambda one: self.micro_batch(1, one),
            "zero": lambda one: self._of_stack("zero", one),
            "replicas": lambda one: self.sharding(1, self.space.gpus, 3, one),
        }
        for name, check in checks.items():
            given = getattr(fixed, name) or ()
            for one in () if isinstance(given, range) else given:
                check(one)


def check_axis(stack: str, axis: str, value: int) -> None:
    """Raise InvalidModel for an axis that a stack does not have."""
    if axis in LACKS.get(stack, ()) and value > 1:
        fact = f"{_given(axis, value)} with --stack {stack}, which does not have it"
        raise InvalidModel(fact, f"take {FLAGS[axis]} 1, or --stack {MEGATRON}")


def check_stage(stack: str, zero: str | None) -> None:
    """Raise InvalidModel for a stage of ZeRO that somebody gave, and that a stack does not have."""
    if stack == FSDP and zero in ("0", "1"):
        raise InvalidModel(f"{FLAGS['zero']} {zero} is not FSDP's", f"take --zero 2 or 3, or --stack {MEGATRON}")


def check_sharding(stack: str, pp: int, zero: int, replicas: int, ep: int = 1) -> None:
    """Raise InvalidModel for shards, or replicas of them, that a stack does not have.

    Source: DeepSpeed's runtime/pipe/engine.py (``PipelineEngine``), which takes no stage from 2 on, and
    runtime/engine.py (``_configure_zero_optimizer``: "MoE not supported with Stage 3").
    """
    if stack == DEEPSPEED and ep > 1 and zero == 3:
        fact = (
            f"{_given('zero', zero)} with {_given('ep', ep)} and --stack {DEEPSPEED}, whose experts have ZeRO 2 at most"
        )
        raise InvalidModel(fact, f"take {FLAGS['ep']} 1, or {FLAGS['zero']} 2")
    if stack == DEEPSPEED and pp > 1 and zero > 1:
        fact = f"{_given('zero', zero)} in a pipeline with --stack {DEEPSPEED}, whose pipelines have ZeRO 1 at most"
        raise InvalidModel(fact, f"take {FLAGS['pp']} 1, or {FLAGS['zero']} 1")
    if replicas > 1 and stack != FSDP:
        raise InvalidModel(f"{_given('replicas', replicas)} is for --stack {FSDP}", "add it, or leave this out")
    if replicas > 1 and zero < 2:
        raise InvalidModel(
            f"{FLAGS['replicas']} {replicas:,} has no effect without {FLAGS['zero']} 2 or 3", "leave it out"
        )


def check_divides(what: str, whole: int, by: str, part: int) -> None:
    """Raise InvalidModel, with the nearest divisors, where ``whole`` things cannot be shared by ``part``."""
    if whole % part:
        near = ", ".join(f"{one:,}" for one in near_divisors(whole, part))
        raise InvalidModel(f"{whole:,} {what} are not divisible by {by} {part:,}", f"nearest: {near}")


def _given(name: str, value: int) -> str:
    """``--tp 3``."""
    return f"{FLAGS[name]} {value:,}"


def _product(**degrees: int) -> str:
    """``--tp 3`` of one degree that is above 1, ``tp x pp =`` of several."""
    used = [name for name, degree in degrees.items() if degree > 1]
    return FLAGS[used[0]] if len(used) == 1 else f"{' x '.join(used)} ="


def _both_sides(values: list[int], near: int) -> list[int]:
    """Return the value below, and the one above."""
    below, above = [one for one in values if one < near], [one for one in values if one > near]
    return [*below[-1:], *above[:1]]


def _multiples(number: int, step: int) -> list[int]:
    """Return the multiples of ``step`` below and above, the nearer one first."""
    below = number // step * step
    return sorted((one for one in (below, below + step) if one), key=lambda one: abs(one - number))
