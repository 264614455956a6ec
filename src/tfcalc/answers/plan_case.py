"""Case of a plan: the model, the machine and the space of layouts, for all questions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING

from tfcalc.core.recomputation import check_modules
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import Training
from tfcalc.printable import quoted
from tfcalc.search.axes import Axes, WrittenLayout
from tfcalc.search.gpus import CardRule, Simulated, of_accelerator
from tfcalc.search.layouts import (
    ChosenLayout,
    EvaluatedLayout,
    LayoutEvaluator,
    SearchedLayouts,
    search,
    tried,
    unsaid_stage,
)
from tfcalc.search.possible import Possible, Space
from tfcalc.timing.device_memory import READ
from tfcalc.timing.estimate import EAGER, OVER, ErrorBand, whose_rate
from tfcalc.timing.rates import FSDP, MEGATRON, Price, machine_of, price_of, rates_of
from tfcalc.timing.rates_file import band_for, rates_for
from tfcalc.timing.step import Layouts, StepParts, StepTime, TapeWork, WeightBytes
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.training.allocator import Reserved
from tfcalc.training.measured import Figure, on_card
from tfcalc.training.peaks import Peaks
from tfcalc.training.precisions import precision
from tfcalc.workload import AUTO, Workload

if TYPE_CHECKING:
    from tfcalc.answers.plan_question import PlanQuestion
    from tfcalc.timing.device_memory import MemoryParts
    from tfcalc.timing.rates import Machine


OF_FSDP = precision("bf16-fsdp")
"""Number formats of FSDP2's mixed precision."""
MOST_RUNS = 40
"""Layouts that fit by the closed form and are passed over, at most, as their steps on the tape do not."""
MOST_EQUAL = 8
"""Layouts that are looked at for each that is listed: sequences may be shared by 2, 4, … GPUs that take as long."""


class OwnCode(NamedTuple):
    """A step by code that runs operation by operation: seconds, bytes of the peak, and what ``memory`` is asked."""

    seconds: float
    peak: int
    run: Workload
    plan: Training


class PlanCase:
    """Model, machine and layouts of a question; ``work`` may be known from other GPUs. Raises UsageError."""

    def __init__(self, question: PlanQuestion, work: ModelWork | None = None) -> None:
        self.question = question
        machine = machine_of(question.card, question.domain, question.nic)
        if machine is None:
            known = "A100, H100, H200, H800, B200, GB200, B300 and GB300"
            raise UsageError(
                f"no training run on {question.card.name} is known, so there is no rate to estimate by",
                f"take one of {known}; or ask flops --train --tokens for the FLOPs, memory --train for the memory",
            )
        self.machine: Machine = machine
        self.rates = rates_for(machine.generation, question.stack, question.rates)
        self.work = work_of(question.model, question.length) if work is None else work
        if not self.work.layers:
            raise UsageError(f"{question.model.summary} has no layers that GPUs could share", "take another model")
        check_modules(question.modules, self.work.modules, question.model.summary)
        self.rule = CardRule(of_accelerator(question.card))
        self.usable, self.room = self.rule.budget.bytes, self.rule.room.budget
        self.space = Space(
            self.work,
            question.model.module(),
            question.gpus,
            question.sequences,
            question.fixed,
            machine.domain,
            question.stack,
            question.modules,
        )
        self.possible = Possible(self.space)
        self.peaks = Peaks(question.model)
        self.on_tape: Callable[[Layouts], int | None] = cache(self._on_tape)
        self.without_end: Callable[[Layouts], Reserved] = cache(self._without_end)

    @cached_property
    def by(self) -> LayoutEvaluator:
        """Bytes and seconds of layouts."""
        return LayoutEvaluator(
            self.space, self.machine, self.rates, self.question.precision, precision(self.question.states)
        )

    @cached_property
    def found(self) -> SearchedLayouts:
        """Layouts of the question, all of them. Raises UsageError where there are none."""
        return search(self.space, self.by, self.room, all_timed=self.question.all_timed)

    def with_question(self, **changes: object) -> PlanCase:
        """Return the case of a question that differs so, of the same model and length."""
        return PlanCase(self.question._replace(**changes), self.work)  # type: ignore[arg-type]  # fields of it

    def evaluated(self, place: int) -> EvaluatedLayout:
        """Return one of the layouts that were found, with what it takes."""
        return self.by.evaluated(self.found.at(place))

    @cached_property
    def best(self) -> EvaluatedLayout:
        """The fastest that fits; where none does, the one that takes least memory."""
        recommended = self.recommended(1)
        return recommended[0] if recommended else self.evaluated(*self.found.smallest(1))

    def recommended(self, number: int) -> list[EvaluatedLayout]:
        """Return the fastest that fit; passed over are those that the tape finds too large, and that equal one before.

        Equal are those that take the same seconds and bytes.
        """
        places = self.found.fastest(MOST_EQUAL * number + MOST_RUNS)
        distinct = islice(self._distinct(map(self.evaluated, places)), number + MOST_RUNS)
        fitting = (one for one in distinct if self.fits(one))
        return list(islice(fitting, number))

    def _distinct(self, layouts: Iterable[EvaluatedLayout]) -> Iterator[EvaluatedLayout]:
        """Yield the first of those that take the same seconds and bytes."""
        seen = set()
        for one in layouts:
            takes = round(float(one.seconds) / self.found.tick), int(one.memory)
            if takes not in seen:
                seen.add(takes)
                yield one

    def peak(self, one: EvaluatedLayout) -> int:
        """Bytes of a layout's fullest device: by its step on the tape, or by the closed form where none is known."""
        found = self.on_tape(one.layouts)
        return int(one.memory) if found is None else found

    def _on_tape(self, at: Layouts) -> int | None:
        """Return the peak of ``memory --train``; None where it knows no such step."""
        low = self.question.precision in READ
        if self.question.stack != MEGATRON or at.modules or self.space.experts > 1 or low:
            return None
        try:
            return self.peaks.peak(*self.asked(at))
        except InvalidModel:
            return None

    def asked(self, at: Layouts) -> tuple[Workload, Training]:
        """Return what ``memory --train`` is asked for a layout."""
        run = Workload(
            seq_len=self.question.length,
            batch_size=at.micro_batch,
            phase="train",
            recompute="full" if at.again else "none",
        )
        plan = Training(
            backend=MEGATRON,
            precision=self.question.states,
            zero=str(at.zero),
            gpus=at.gpus,
            grad_accum=at.batches,
            tensor_parallel=at.tp,
            sequence_parallel=at.tp > 1,
            pipeline_parallel=at.pp,
            virtual_pipeline=at.vpp,
            context_parallel=at.cp,
        )
        return run, plan

    def simulated(self, one: EvaluatedLayout) -> Simulated | None:
        """PyTorch's allocator on a card of some bytes, simulated, where the layout's step runs on the tape."""
        if self.on_tape(one.layouts) is None:
            return None
        return lambda within: self.peaks.reserved_within(*self.asked(one.layouts), within)

    def _without_end(self, at: Layouts) -> Reserved:
        """Bytes that PyTorch's allocator reserves for a layout's step, however many the GPU has."""
        return self.peaks.reserved(*self.asked(at))

    def reserved(self, one: EvaluatedLayout, *, by_tape: bool = True) -> Figure:
        """Bytes that PyTorch reserves, by its allocator simulated; where it is not, from what is allocated upwards.

        The band is that of published runs.
        """
        simulated = self.simulated(one) if by_tape else None
        if simulated is None:
            peak = self.peak(one) if by_tape else int(one.memory)
            return on_card(peak, peak, 0, megatron=self.question.stack == MEGATRON).reserved
        found = simulated(self.usable)
        if found is None or found.given_back:
            found = self.without_end(one.layouts)
        return on_card(self.peak(one), found.reserved, 0, megatron=True).reserved

    @cached_property
    def scale(self) -> float:
        """Factor of a measured run over its estimate; 1 without one."""
        if self.question.measured is None:
            return 1.0
        rate, gpus = self.question.measured[0], self.question.gpus
        seconds = self.question.tokens_per_step / (rate * gpus)
        if seconds < self.floor:
            above = self.floor / seconds
            whose = whose_rate(above, gpus, per_gpu=True)
            each = f"{whose} Of each of {gpus:,} it is {rate / gpus:,.4g} tok/s" if gpus > 1 else whose
            fact = f"--measured {rate:,.12g} tok/s of each GPU: an MFU of {100 * above:,.0f} %, and one {OVER}"
            raise UsageError(fact, each if whose else "check the rate, the GPU and the model")
        return seconds / float(self.by.evaluated(self.measured_layout).seconds)

    @cached_property
    def measured_layout(self) -> Layouts:
        """The layout that was measured; of those that have the axes which were said, the fastest."""
        assert self.question.measured is not None
        space = self.space._replace(fixed=self.question.fixed.with_those(self.question.measured[1]))
        found = search(space, self.by, float("inf"))
        return found.at(found.fastest(1)[0])

    def by_transformers(self, one: EvaluatedLayout) -> OwnCode | None:
        """Return the same step by transformers' own code; None where ``train`` asks about no such step.

        That is FSDP over all GPUs of a dense model in bf16.
        """
        question, at = self.question, one.layouts
        fsdp = question.stack == FSDP and at.zero == 3 and at.tp * at.pp * at.cp == 1 and at.shards == at.dp > 1
        if not fsdp or self.space.experts > 1 or question.precision != "bf16" or at.modules or self.scale != 1:
            return None
        if question.rates is not None:
            return None
        run, plan = self.asked(at)
        plan = plan.replaced(backend=AUTO, precision=OF_FSDP.name, layout="fsdp2", sequence_parallel=False)
        try:
            resolved = self.peaks.resolved(run, plan)
            tape, peak = TapeWork(*self.peaks.made(*resolved)), self.peaks.peak(*resolved)
        except InvalidModel:
            return None
        rates, weights = rates_of(self.machine.generation, EAGER), WeightBytes.of(OF_FSDP)
        time = StepTime(self.work, self.machine, rates, weights=weights, tape=tape)
        return OwnCode(float(time.parts(at).seconds), peak, run, plan)

    def seconds(self, one: EvaluatedLayout) -> float:
        """Seconds of a step of a layout, scaled by what was measured."""
        return float(one.seconds) * self.scale

    def parts(self, one: EvaluatedLayout) -> StepParts:
        """Parts of a step of a layout, scaled as the step is."""
        return StepParts(*(float(part) * self.scale for part in one.parts))

    def memory(self, one: EvaluatedLayout) -> MemoryParts:
        """Parts of the bytes of a layout's fullest device."""
        return self.by.memory(one.layouts).fullest

    @property
    def band(self) -> ErrorBand:
        """Errors of published runs of this class."""
        experts = any(layer.experts for layer in self.work.layers)
        measured = self.question.measured is not None
        stack, file = self.question.stack, self.question.rates
        return band_for(self.machine.generation, stack, file, experts=experts, measured=measured)

    @property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.question.card, self.question.price, self.question.prices)

    @property
    def floor(self) -> float:
        """Seconds of the FLOPs alone at the dense peak of the precision."""
        peaks = self.question.card.peaks
        peak = max(peaks.get(self.question.precision.removeprefix("mx").removeprefix("nv"), 0), peaks["bf16"])
        return self.work.flops * self.question.tokens_per_step / (peak * self.question.gpus)

    def rate(self, seconds: float) -> float:
        """Return the tokens per second of a GPU."""
        return self.question.tokens_per_step / seconds / self.question.gpus

    @cached_property
    def flops_of_all_pairs(self) -> float:
        """FLOPs of a training step per token, masked pairs counted, as ``flops`` and ``train`` have them."""
        length = self.question.length
        every = Workload(seq_len=length, phase="train", attention="full", recompute="none")
        return work_of(self.question.model, length, self.question.model.tree(every)).flops

    def mfu(self, seconds: float) -> float:
        """Model FLOPs utilisation: all pairs of attention, nothing recomputed, of the dense 16-bit peak."""
        return self.flops_of_all_pairs * self.rate(seconds) / self.machine.peak

    # --- a layout that was written

    def layout(self, asked: WrittenLayout) -> Layouts:
        """Return the layout that was written: an axis that it does not name has the one value that was given, or 1."""
        said = {
            name: one[0] if one else other[0] if other and len(other) == 1 else None
            for name, one, other in zip(Axes._fields, asked.axes, self.question.fixed, strict=True)
        }
        tp, pp, cp = (said[name] or 1 for name in ("tp", "pp", "cp"))
        dp = asked.dp or max(1, self.question.gpus // (tp * pp * cp))
        replicas = said["replicas"] or 1
        usual = unsaid_stage(sharded=self.question.stack == FSDP or replicas > 1)
        zero = 0 if dp * cp == 1 else usual if said["zero"] is None else said["zero"]
        micro = said["micro_batch"] or 1
        return ChosenLayout(
            tp=tp,
            pp=pp,
            cp=cp,
            dp=dp,
            ep=said["ep"] or 1,
            etp=said["etp"] or 1,
            vpp=said["vpp"] or 1,
            micro_batch=micro,
            zero=zero,
            replicas=replicas,
            again=said["again"] or 0,
        ).layouts(self.space)

    def refusal(self, at: Layouts) -> InvalidModel | None:
        """Return the rule that a layout breaks; None where it can be."""
        try:
            self.possible.check(at)
        except InvalidModel as error:
            return error
        return None

    def checked(self, asked: WrittenLayout) -> EvaluatedLayout:
        """Return a layout that was written, with what it takes. Raises UsageError where it cannot be."""
        at = self.layout(asked)
        if (error := self.refusal(at)) is not None:
            raise UsageError(f"{quoted(asked.text)} cannot be: {error.message}", error.hint)
        return self.by.evaluated(at)

    def status(self, one: EvaluatedLayout) -> str:
        """Return the state of the verdict, by the rule of ``memory --gpu``."""
        return self.rule.status(self.peak(one), self.simulated(one))

    def fits(self, one: EvaluatedLayout) -> bool:
        """Return whether it fits, tightly or with room to spare."""
        return self.rule.fits(self.peak(one), self.simulated(one))

    def untried(self, at: Layouts) -> list[str]:
        """Names of the axes of which a search would not have tried this value."""
        axes = tried(self.space)._asdict()
        here = {name: getattr(at, name) for name in Axes._fields if name in at._fields and name != "zero"}
        return [name for name, value in here.items() if value not in axes[name]]
