"""Layouts of a model over some GPUs, all of them: which fit, and how long a step of each takes.

A few thousand are evaluated one by one; more of them in arrays, by the same formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from heapq import nsmallest
from importlib.util import find_spec
from itertools import product
from math import inf, prod
from typing import TYPE_CHECKING, Any

from tfcalc.core.number import divisors
from tfcalc.errors import InvalidModel, Unavailable, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import ends_of
from tfcalc.search.axes import Axes, Values
from tfcalc.search.possible import FLAGS, LACKS, Possible, Space, stages_of
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.numbers import Many, is_array
from tfcalc.timing.rates import DEEPSPEED, FSDP, OF_2022
from tfcalc.timing.step import Layouts, StepParts, StepTime, WeightBytes
from tfcalc.training.precisions import OF_MEGATRON, Precision

if TYPE_CHECKING:
    from tfcalc.timing.rates import Machine, Rates

MOST_POINTS = 10**9
"""Combinations of the axes' values that are looked at, at most."""
MOST_LAYOUTS = 5_000_000
"""Layouts that are evaluated at most."""
ONE_BY_ONE, WITHOUT_NUMPY = 1_200, 4_000
"""Layouts that are evaluated one by one, at most: more take longer than to import numpy; and where it is missing."""
AT_A_TIME = 2**17
"""Layouts that are evaluated together."""
LONGEST_INTERLEAVING = 12
"""Chunks of a stage that are tried at most; more are no faster."""
LARGEST_MICRO_BATCH = 16
SHORTEST_SHARE = 2048
"""Tokens of a sequence for each GPU of context parallelism, at least."""

ALIKE = 0.02
"""Steps that are this close are equal, as far as the estimate can tell."""
TICK = 1e-5
"""Share of the fastest step from which on two steps differ in the order."""


class ChosenLayout(NamedTuple):
    """Choices that make a layout: a number of each, or a column."""

    tp: Many
    pp: Many
    cp: Many
    dp: Many
    ep: Many
    etp: Many
    vpp: Many
    micro_batch: Many
    zero: Many
    replicas: Many
    again: Many

    def layouts(self, space: Space, *, staged: bool = True) -> Layouts:
        """Return them with what follows: micro-batches, shards, and, if ``staged``, layers of stages (for memory)."""
        copies = self.dp * self.cp
        stages = _stages(space, self.pp, self.vpp) if staged else None
        return Layouts(
            tp=self.tp,
            pp=self.pp,
            vpp=self.vpp,
            cp=self.cp,
            ep=self.ep,
            etp=self.etp,
            dp=self.dp,
            micro_batch=self.micro_batch,
            batches=space.sequences // (self.dp * self.micro_batch),
            zero=self.zero,
            shards=copies // self.replicas if space.stack == FSDP or self._replicated else None,
            again=self.again,
            modules=space.modules,
            sequence_parallel=space.sequence_parallel,
            **({} if stages is None else {"stages": stages[0], "between": stages[1]}),
        )

    @property
    def _replicated(self) -> bool:
        return not is_array(self.replicas) and bool(self.replicas > 1)


def _stages(space: Space, pp: Many, vpp: Many) -> tuple[tuple[tuple[Many, ...], ...], Many] | None:
    """Return the layers of each kind on three stages of each layout, and the number of the one between.

    None where all stages have as many.
    """
    if not is_array(pp):
        return stages_of(space, int(pp), int(vpp))
    import numpy as np

    longest = int(vpp.max(initial=0)) + 1
    codes = (pp * longest + vpp).astype(np.intp)
    present = np.zeros(int(codes.max(initial=0)) + 1, dtype=bool)
    present[codes] = True
    different = present.nonzero()[0].tolist()
    known = [stages_of(space, *divmod(code, longest)) for code in different]
    if not any(known):
        return None
    place = np.zeros(len(present), dtype=np.intp)
    place[different] = range(len(different))
    even = [[[layer.copies / (code // longest) for layer in space.work.layers]] * 3 for code in different]
    layers = [one.layers if one else other for one, other in zip(known, even, strict=True)]
    here = np.array(layers, dtype=np.float64)[place[codes]]
    between = np.array([one.between if one else 1 for one in known], dtype=np.float64)[place[codes]]
    kinds = range(here.shape[2])
    return tuple(tuple(here[:, stage, kind] for kind in kinds) for stage in range(here.shape[1])), between


def stages_of_zero(space: Space, *, pipeline: bool) -> Sequence[int]:
    """Return the stages that are tried."""
    return stages_of_stack(space.stack, pipeline=pipeline) if space.fixed.zero is None else space.fixed.zero


def stages_of_stack(stack: str, *, pipeline: bool) -> Sequence[int]:
    """Return the stages of ZeRO that are worth trying; 0 takes no fewer seconds or bytes than 1.

    In a pipeline gradients that are shared would be summed up for each micro-batch, and weights gathered, which FSDP
    alone waits with (stage 2). Without one stage 2 is DeepSpeed's; Megatron-FSDP has it (``optim_grads``), but of its
    steps none is published, and it would be first by less than an estimate can tell.
    """
    if stack == FSDP:
        return (2, 3)
    if pipeline or stack == OF_2022:
        return (1,)
    return (1, 2, 3) if stack == DEEPSPEED else (1, 3)


def unsaid_stage(*, sharded: bool) -> int:
    """Return the stage of ZeRO of a layout that names none: FSDP's where weights are sharded, else 1."""
    return 3 if sharded else 1


SEVERAL = 2
"""Groups of GPUs that share the experts: more are like two."""


class LayoutBlock(NamedTuple):
    """Layouts that share their first degrees, and differ in the ``inner`` choices."""

    outer: tuple[int, ...]
    inner: Sequence[tuple[int, ...]]


def values(given: Values, known: Iterable[int], most: int | None = None) -> Sequence[int]:
    """Return the values that were given, or those that are ``known``, up to the ``most``."""
    return given if given is not None else [one for one in known if most is None or one <= most]


def tried(space: Space) -> Axes:
    """Return the values of each axis that a search tries, whether they divide or not."""
    fixed, depth = space.fixed, space.work.depth
    of_gpus = divisors(space.gpus)
    lacks = LACKS.get(space.stack, ())
    return Axes(
        tp=values(fixed.tp, of_gpus, space.domain),
        pp=values(fixed.pp, of_gpus, depth),
        vpp=values(fixed.vpp, (1,) if "vpp" in lacks else range(1, min(depth, LONGEST_INTERLEAVING) + 1)),
        cp=values(fixed.cp, (1,) if "cp" in lacks else of_gpus, max(1, space.work.length // SHORTEST_SHARE)),
        ep=values(fixed.ep, divisors(space.experts)),
        etp=values(fixed.etp, (1,)),
        micro_batch=values(fixed.micro_batch, divisors(space.sequences), LARGEST_MICRO_BATCH),
        zero=sorted({*stages_of_zero(space, pipeline=False), *stages_of_zero(space, pipeline=True)}),
        replicas=values(fixed.replicas, of_gpus if space.stack == FSDP else (1,)),
        again=values(fixed.again, (0, 1)),
    )


class Enumeration:
    """Blocks of all layouts in which everything divides, and their ``count``. Raises UsageError."""

    def __init__(self, space: Space) -> None:
        self.space, self.possible, self.tried = space, Possible(space), tried(space)
        self.inner = cache(self._inner)
        if self.points > MOST_POINTS:
            raise UsageError(f"{self.points:,} points are too many to search", "give fewer values of an axis")
        try:
            self.possible.check_values()
        except InvalidModel as error:
            raise UsageError(error.message, error.hint) from None
        self.blocks = list(self._blocks())
        self.count = sum(len(block.inner) for block in self.blocks)
        if self.count > MOST_LAYOUTS:
            fact = f"{self.count:,} layouts of {space.gpus:,} GPUs are too many: at most {MOST_LAYOUTS:,}"
            raise UsageError(fact, "fix an axis, as in --tp 8 --cp 1")
        if not self.count:
            raise self._none()

    @property
    def points(self) -> int:
        """Combinations of all values."""
        return prod(map(len, self.tried))  # type: ignore[arg-type]  # all are there

    def _blocks(self) -> Iterator[LayoutBlock]:
        space, at, holds, rules = self.space, self.tried, self.possible.holds, self.possible
        experts = [pair for pair in product(at.ep or (), at.etp or ()) if holds(rules.groups_of_experts, *pair)]
        for tp in at.tp or ():
            if not holds(rules.tensor, tp):
                continue
            for pp in at.pp or ():
                if not holds(rules.pipeline, tp, pp):
                    continue
                for cp in at.cp or ():
                    if not holds(rules.context, tp, pp, cp):
                        continue
                    dp = space.gpus // (tp * pp * cp)
                    if not holds(rules.batch, dp):
                        continue
                    for ep, etp in experts:
                        inner = self.inner(pp, dp, dp * cp == 1, min(ep, SEVERAL))
                        if inner and holds(rules.experts, tp * cp * dp, ep, etp):
                            yield LayoutBlock((tp, pp, cp, dp, ep, etp), inner)

    def _inner(self, pp: int, dp: int, alone: bool, ep: int) -> list[tuple[int, ...]]:
        """Interleaving, micro-batch, ZeRO, replicas and checkpointing, where the rest is chosen: ``ep`` or more groups.

        Whether one group of GPUs has all experts, or several share them, is all that these depend on.
        """
        space, at, holds, rules = self.space, self.tried, self.possible.holds, self.possible
        ends = ends_of(space.work.depth, pp)
        known = ends.chunks(space.work.depth, pp) if ends else ()
        chunks = values(space.fixed.vpp, known, max(at.vpp or (1,)))
        times = [
            (vpp, micro)
            for vpp in chunks
            if holds(rules.chunks, pp, vpp)
            for micro in at.micro_batch or ()
            if holds(rules.micro_batch, dp, micro) and holds(rules.schedule, pp, vpp, space.sequences // (dp * micro))
        ]
        shares = [
            (zero, replicas)
            for zero in ((0,) if alone else stages_of_zero(space, pipeline=pp > 1))
            for replicas in at.replicas or ()
            if holds(rules.sharding, pp, dp, zero, replicas, ep)
        ]
        return [(*one, *other, again) for one, other, again in product(times, shares, at.again or ())]

    def _none(self) -> UsageError:
        """Return the error that says what does not divide, where nothing does."""
        space, fixed = self.space, self.space.fixed
        only = {name: given[0] for name, given in fixed._asdict().items() if given and len(given) == 1}
        try:
            tp, pp, cp = (only.get(name, 1) for name in ("tp", "pp", "cp"))
            self.possible.pipeline(tp, pp)
            self.possible.context(tp, pp, cp)
            zero = only.get("zero", unsaid_stage(sharded=space.stack == FSDP))
            self.possible.sharding(pp, space.gpus, zero, 1)
            if {"tp", "pp", "cp"} <= set(only):
                dp = space.gpus // (tp * pp * cp)
                self.possible.batch(dp)
                self.possible.chunks(pp, only.get("vpp", 1))
                self.possible.groups_of_experts(only.get("ep", 1), only.get("etp", 1))
                self.possible.experts(tp * cp * dp, only.get("ep", 1), only.get("etp", 1))
                self.possible.micro_batch(dp, only.get("micro_batch", 1))
                self.possible.sharding(pp, dp, zero, only.get("replicas", 1), only.get("ep", 1))
                batches = space.sequences // (dp * only.get("micro_batch", 1))
                self.possible.schedule(pp, only.get("vpp", 1), batches)
            elif "vpp" in only and "pp" in only:
                self.possible.chunks(pp, only["vpp"])
        except InvalidModel as error:
            return UsageError(error.message, error.hint)
        fact = f"no layout of {space.gpus:,} GPUs divides {space.sequences:,} sequences and the model's"
        near = max(1, round(space.sequences / space.gpus)) * space.gpus  # which copies on all GPUs could share
        batch = f"take --global-batch-size {near}, " * (space.sequences % space.gpus != 0)
        hint = f"{batch}give other values, or fewer of {', '.join(list(FLAGS.values())[:7])}"
        return UsageError(f"{fact} {space.work.depth} layers", hint)

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Yield the choices of each layout."""
        for block in self.blocks:
            for one in block.inner:
                yield *block.outer, *one

    def some(self) -> Iterator[list[LayoutBlock]]:
        """Yield blocks of as many layouts as are evaluated together."""
        found: list[LayoutBlock] = []
        number = 0
        for block in self.blocks:
            found.append(block)
            number += len(block.inner)
            if number >= AT_A_TIME:
                yield found
                found, number = [], 0
        if found:
            yield found


class EvaluatedLayout(NamedTuple):
    """A layout with what it takes: bytes of its fullest device, and the parts of its step. Numbers, or arrays."""

    layouts: Layouts
    memory: Many
    parts: StepParts

    @property
    def seconds(self) -> Many:
        """Seconds of a step."""
        return self.parts.seconds


class LayoutEvaluator:
    """Bytes and seconds of layouts of one space, on one kind of machine."""

    def __init__(
        self, space: Space, machine: Machine, rates: Rates, precision: str, states: Precision = OF_MEGATRON
    ) -> None:
        self.space, self.rates, self.precision, self.states = space, rates, precision, states
        self.time = StepTime(space.work, machine, rates, precision=precision, weights=WeightBytes.of(states))

    def memory(self, at: Layouts) -> DeviceMemory:
        """Return the bytes of a device, by the stack's list of what is saved."""
        return DeviceMemory.of_stack(
            self.space.stack,
            self.space.work,
            at,
            eager=self.rates.eager_attention,
            precision=self.precision,
            states=self.states,
        )

    def evaluated(self, at: Layouts) -> EvaluatedLayout:
        """Return what a layout takes, or each of several."""
        return EvaluatedLayout(at, self.memory(at).peak, self.time.parts(at))


class SearchedLayouts(NamedTuple):
    """Layouts of a ``space`` with the bytes of the fullest device and the seconds of a step of each: lists or arrays.

    Seconds are infinite where they were not asked for, as a layout takes more than the ``room``.
    """

    space: Space
    room: float
    chosen: Any
    memory: Any
    seconds: Any

    @property
    def number(self) -> int:
        """Number of layouts."""
        return len(self.memory)

    def column(self, name: str) -> list[Any]:
        """Return the values of one axis, of the ``memory`` or of the ``seconds``, as Python's numbers."""
        if name in ChosenLayout._fields:
            place = ChosenLayout._fields.index(name)
            return self.chosen[:, place].tolist() if is_array(self.chosen) else [one[place] for one in self.chosen]
        values = getattr(self, name)
        return values.tolist() if is_array(values) else values  # type: ignore[no-any-return]

    @property
    def places(self) -> Any:
        """Places of those that fit."""
        if is_array(self.memory):
            return (self.memory <= self.room).nonzero()[0]
        return [place for place, taken in enumerate(self.memory) if taken <= self.room]

    def at(self, place: int) -> Layouts:
        """Return one of them, as whole numbers."""
        return ChosenLayout(*map(int, self.chosen[place])).layouts(self.space)

    def fastest(self, number: int) -> list[int]:
        """Return the places of up to this many that fit, the fastest first; of equals that with less ``cp``, memory."""
        places, tick = self.places, self.tick
        if is_array(places):
            import numpy as np

            seconds = self.seconds[places]
            if len(places) > number:
                places = places[seconds <= np.partition(seconds, number - 1)[number - 1] + tick]
            places = places.tolist()

        def order(place: int) -> tuple[int, int, float]:
            ticks = round(float(self.seconds[place]) / tick)
            return ticks, int(ChosenLayout(*self.chosen[place]).cp), float(self.memory[place])

        return nsmallest(number, places, key=order)

    @property
    def tick(self) -> float:
        """Seconds from which on two steps differ in the order."""
        return TICK * float(self.seconds.min() if is_array(self.seconds) else min(self.seconds))

    def smallest(self, number: int) -> list[int]:
        """Return the places of up to this many that take least memory, fitting or not."""
        places = self.memory.argsort(kind="stable")[:number].tolist() if is_array(self.memory) else range(self.number)
        return nsmallest(number, places, key=self.memory.__getitem__)

    def alike(self, seconds: float) -> list[int]:
        """Return the places of those that fit and are as fast as this, as far as the estimate can tell."""
        places = self.places
        if is_array(places):
            return places[self.seconds[places] <= (1 + ALIKE) * seconds].tolist()  # type: ignore[no-any-return]
        return [place for place in places if self.seconds[place] <= (1 + ALIKE) * seconds]

    @property
    def front(self) -> list[int]:
        """Places of those that fit of which none is both faster and smaller (Pareto), the fastest first."""
        places, tick = self.places, self.tick
        if is_array(places):
            import numpy as np

            order = np.lexsort((self.memory[places], (self.seconds[places] / tick).round()))
            taken = self.memory[places[order]]
            first = np.concatenate([[True], taken[1:] < np.minimum.accumulate(taken)[:-1]])
            return places[order[first]].tolist() if len(places) else []
        found: list[int] = []
        for place in sorted(places, key=lambda one: (round(self.seconds[one] / tick), self.memory[one])):
            if not found or self.memory[place] < self.memory[found[-1]]:
                found.append(place)
        return found


def search(space: Space, by: LayoutEvaluator, room: float, *, all_timed: bool = False) -> SearchedLayouts:
    """Find memory and seconds of all layouts: of those beyond the ``room`` seconds only where ``all_timed``.

    Raises UsageError where there are none, or too many; Unavailable where numpy is needed and not installed.
    """
    found = Enumeration(space)
    if found.count > (ONE_BY_ONE if find_spec("numpy") else WITHOUT_NUMPY):
        return _in_arrays(found, by, room, all_timed)
    chosen = list(found.rows())
    memory, seconds = [], []
    for one in chosen:
        at = ChosenLayout(*one).layouts(space)
        taken = float(by.memory(at).peak)
        memory.append(taken)
        timed = all_timed or taken <= room or found.count == 1
        seconds.append(float(by.time.parts(at).seconds) if timed else inf)
    return SearchedLayouts(space, room, chosen, memory, seconds)


def _in_arrays(found: Enumeration, by: LayoutEvaluator, room: float, all_timed: bool) -> SearchedLayouts:
    """Evaluate some at a time, so that intermediate results take little memory."""
    try:
        import numpy as np
    except ImportError:
        hint = "pip install 'tfcalc[sweep]', or fix axes, as in --tp 8 --cp 1"
        raise Unavailable(f"{found.count:,} layouts are searched with numpy, which is not installed", hint) from None
    different = {id(block.inner): block.inner for block in found.blocks}
    inner = {name: np.array(rows, dtype=np.int32) for name, rows in different.items()}
    chosen = np.empty((found.count, len(ChosenLayout._fields)), dtype=np.int32)
    memory, seconds = np.empty(found.count), np.full(found.count, inf)
    pieces = list(found.some())
    columns = np.empty((len(ChosenLayout._fields), max(sum(len(block.inner) for block in blocks) for blocks in pieces)))
    start = 0
    for blocks in pieces:
        sizes = [len(block.inner) for block in blocks]
        here = slice(start, start + sum(sizes))
        outer = np.array([block.outer for block in blocks], dtype=np.int32)
        chosen[here, : outer.shape[1]] = np.repeat(outer, sizes, axis=0)
        chosen[here, outer.shape[1] :] = np.concatenate([inner[id(block.inner)] for block in blocks])
        some = columns[:, : here.stop - start]
        some[:] = chosen[here].T
        memory[here] = taken = by.memory(ChosenLayout(*some).layouts(found.space)).peak
        fitting = np.arange(len(taken)) if all_timed else (taken <= room).nonzero()[0]
        if len(fitting):
            timed = by.time.parts(
                ChosenLayout(*(column[fitting] for column in some)).layouts(found.space, staged=False)
            )
            seconds[start + fitting] = timed.seconds
        start = here.stop
    return SearchedLayouts(found.space, room, chosen, memory, seconds)
