"""A training run on one GPU or a few: does it fit, or with which change; how long it takes, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tfcalc.analysis.common import model_of
from tfcalc.answers.conventions_text import PAIRS
from tfcalc.answers.fit import (
    ALL_TRIED,
    VerdictKeys,
    VerdictOnCard,
    cards_of,
    name_of,
    named_card,
    not_searched,
    of_those_searched,
    searched,
)
from tfcalc.answers.step_flops import SequenceFlops, sequence_flops
from tfcalc.answers.training_memory import FUSED_TAKE_LESS, OWN_CODE
from tfcalc.answers.verdict import NO_EXPERT_PARALLELISM, memory_within
from tfcalc.backends import backend
from tfcalc.core.traced import value_of
from tfcalc.dimensions import MOST_TOKENS, check_size
from tfcalc.errors import UsageError
from tfcalc.hardware import Accelerator
from tfcalc.model import default_run
from tfcalc.number_formats import FP32, INT4
from tfcalc.placed.schedules import schedule_of
from tfcalc.plans import COLOCATE, DPO, GRPO, PPO, SERVER, SFT, Training
from tfcalc.report.declared import Answer, Key, When, integer, number, record, records, text, texts
from tfcalc.report.opening import found, given
from tfcalc.report.sheet import Cell, Column, InUnit, Sheet, of
from tfcalc.search.gpus import ANY_CARD, NO, RISKY, SAID, Capacity, common, of_card
from tfcalc.timing.estimate import (
    CODE,
    EAGER,
    HOURS_OF_A_MONTH,
    OVER,
    SECONDS_OF_A_DAY,
    SECONDS_OF_AN_HOUR,
    Estimate,
    Pace,
    whose_rate,
)
from tfcalc.timing.rates import NO_PRICES, Machine, Price, Rates, machine_of, price_of, rates_of
from tfcalc.timing.rates_file import RatesFile, band_for, rates_for, read_rates
from tfcalc.timing.step import Layouts, StepParts, StepTime, TapeWork, WeightBytes
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.training.adapters import tuned
from tfcalc.training.methods import WRITES, step_run, with_method
from tfcalc.training.optimizers import bytes_of_a_number, optimizer
from tfcalc.training.peaks import Peaks
from tfcalc.training.plan_checks import OF_BITSANDBYTES
from tfcalc.training.precisions import PRODUCTS_ALONE, precision
from tfcalc.units import rounded, short
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

PASSES = {
    DPO: "floor and estimate have the reference model's pass, where it is in the run; five steps of TRL 1.16 on an "
    "H100, by which this way of counting it was chosen, were within 15 %",
    GRPO: "the floor has the passes that score them, and those that write completions on the same GPUs, of which each "
    "reads the weights once for a token of all completions",
    PPO: "the floor has both models that are trained, and no passes that write and score completions",
}
"""What of a method beside training is in the floor."""
UNTIMED = {
    GRPO: "Four steps of TRL's GRPO on an H100 took 13 to 51 ms for each token of a completion (models of 0.5 to 1.5B)"
}
"""What is known of a method's seconds, where no rate follows from it (tests/oracle/memory/h100-preference.jsonl)."""
AT_A_SHARE = {
    GRPO: "with --mfu completions are written as fast as weights can be read",
    PPO: "with --mfu nothing is in the hours that writes and scores completions",
}
"""What the hours of a said MFU leave out of a method that writes completions."""
ESTIMATED_FORMATS = ("bf16", "fp16")
"""Number formats of the published runs."""
COMPILED = "fsdp"
"""Stack whose rates compiled code on several GPUs takes: it is as FSDP trainers have it."""
IN_FP8 = "plan --precision fp8 estimates Megatron-LM's"
HALF = ("bf16", "fp16")
FASTER = ("tf32", *HALF, "fp8")
"""Formats that products may have beside the one of a plan, those of most numbers first."""
SCORES = ("eager", "math")
"""Kernels of attention that write all scores."""
CAST, EXPANDED = 4 + 2, 0.5 + 0.0625 + 2
"""Bytes that a pass moves of a weight: autocast reads 32 bits and writes 16; expanding reads 4 bits and of 64 weights a
scale of 32, and writes 16."""


NO_PEAK = "; a share of the peak tells nothing without one: name the GPU (tfcalc gpus), or give --tokens-per-second"
"""What to do where a card's peak is not known."""

PAGES = "what pages to the host, where the GPU is full"
"""States of a paged optimizer that do not fit."""


class TrainQuestion(NamedTuple):
    """Question of a training run.

    Attributes:
        model: the model.
        workload: batch and length of a step on one GPU.
        plan: how it is trained.
        tokens: tokens of the whole run.
        card: memory of the GPUs and their number; None for a table over GPUs.
        pace: what is known of its speed.
        price: US dollars for a GPU and an hour, for all GPUs; else a dated list.
        rates: a file of rates in the place of those of published runs.
        prices: one's own prices by the names of GPUs, before ``price`` and the dated list.
        cards: GPUs of the table; by default the common ones.
        pairs: pairs of queries and keys that count in the MFU, of ``Workload.attention``: all, as `flops --mfu` has it.
        days: days within which the run is to end; None for a month.
    """

    model: Model
    workload: Workload | None
    plan: Training
    tokens: int
    card: Capacity | None = None
    pace: Pace = Pace()
    price: float | None = None
    rates: RatesFile | None = None
    prices: Mapping[str, Price] = NO_PRICES
    cards: tuple[Capacity, ...] = ()
    pairs: str = "full"
    days: float | None = None


class RunOnCard(VerdictOnCard):
    """The run on GPUs of one kind, as asked or with the cheapest change that makes it fit."""

    def __init__(
        self, question: TrainQuestion, card: Capacity, accelerator: Accelerator, peaks: Peaks, *, grows: bool = True
    ) -> None:
        self.question, self.peaks = question, peaks
        asked = question.workload, question.plan
        within = lambda card: memory_within(question.model, card, asked[0], training=asked[1], peaks=peaks)  # noqa: E731
        super().__init__(card, accelerator, within, grows=grows)

    @cached_property
    def resolved(self) -> tuple[Workload, Training]:
        """Run and plan, with all that was left open decided."""
        return self.peaks.resolved(*self.ran)

    @property
    def plan(self) -> Training:
        """The plan, with all that was left open decided."""
        return self.resolved[1]

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return value_of(self.ran[1].gpus or self.card.gpus)

    @cached_property
    def work(self) -> ModelWork:
        """Work of the model, as it is tuned."""
        run, plan = self.ran
        return _work(self.question.model, value_of(run.seq_len), plan)

    @cached_property
    def flops(self) -> SequenceFlops:
        """FLOPs of a sequence, as the method of training reads it."""
        run, plan = self.ran
        return sequence_flops(self.question.model, run, plan)

    @property
    def copies(self) -> int:
        """Copies of the model with data of their own."""
        return value_of(self.ran[1].data_parallel) if self.gpus > 1 else 1

    @property
    def tokens_per_step(self) -> int:
        """Tokens of an optimizer's step, of all GPUs."""
        return self.sequences_per_step * value_of(step_run(self.ran[0], with_method(self.ran[1])).seq_len)

    @property
    def sequences_per_step(self) -> int:
        """Sequences of an optimizer's step, of all GPUs; two of each pair."""
        run, plan = self.ran
        return value_of(step_run(run, with_method(plan)).batch_size) * value_of(plan.grad_accum) * self.copies

    @property
    def flops_per_step(self) -> float:
        """FLOPs of an optimizer's step, of all GPUs."""
        return self.flops.all * self.sequences_per_step

    @property
    def format(self) -> str:
        """Number format of the products."""
        return precision(self.plan.precision).compute

    @property
    def peak_flops(self) -> float:
        """Dense FLOP/s of a GPU in that format, which an MFU is a share of; 0 where it has none."""
        return float(self.accelerator.peaks.get(self.format, 0.0))

    @property
    def fastest_flops(self) -> float:
        """Dense FLOP/s of a GPU in the format of products alone, where they have another one."""
        in_products = self.plan.precision == PRODUCTS_ALONE
        return float(self.accelerator.peaks.get(PRODUCTS_ALONE, 0.0)) if in_products else self.peak_flops

    @property
    def computing(self) -> float:
        """Seconds of a step's model FLOPs at the dense peak."""
        if not self.fastest_flops:
            return 0.0
        return self.flops_per_step / (self.fastest_flops * self.gpus)

    @property
    def floor(self) -> float:
        """Seconds of a step below which none can be: model FLOPs over the dense peak, and weights that are read."""
        return self.computing and self.computing + self._reading(self.fastest_flops)

    def _reading(self, rate: float) -> float:
        """Seconds that writing completions takes beyond its FLOPs at this ``rate`` of a GPU.

        Each token is written by a pass that reads all weights which it uses, of all completions of a step at best once.
        """
        plan = with_method(self.ran[1])
        if plan.method != GRPO or plan.vllm_mode == SERVER or not self.accelerator.bandwidth:
            return 0.0
        by = precision(self.plan.precision)
        bits = INT4.bits if plan.base_weights else min(by.weights, by.computed)
        shared = self.gpus if plan.vllm_mode == COLOCATE else 1
        read = self.work.read_by_a_token * bits / 8 / (self.accelerator.bandwidth * shared)
        computed = self.flops.written * self.sequences_per_step / (rate * self.gpus)
        return max(value_of(plan.size("max_completion_length")) * read - computed, 0.0)

    @cached_property
    def at_the_peak(self) -> float:
        """Seconds of a step at an MFU of 1, by the pairs that it counts: those of the floor are the visible ones."""
        if not self.peak_flops:
            return 0.0
        run, plan = self.ran
        flops = sequence_flops(self.question.model, run, plan, self.question.pairs).all
        return flops * self.sequences_per_step / (self.peak_flops * self.gpus)

    @property
    def unknown(self) -> str:
        """Say why nothing is estimated; nothing where it is."""
        if self.plan.method in WRITES or (self.plan.method == DPO and self.stack != EAGER):
            return UNTIMED.get(self.plan.method, f"No run of such code with --method {self.plan.method} is known")
        machine, file = machine_of(self.accelerator), self.question.rates
        if machine is None:
            of_memory = self.accelerator.name == ANY_CARD
            return f"No run on {self.card.stated if of_memory else self.accelerator.name} is known"
        if file is not None and machine.generation not in file.table["generations"]:
            return f"{file.called} has no rates of {self.accelerator.name}"
        if self.plan.precision == PRODUCTS_ALONE:
            return f"No run in fp8 is known of one GPU's libraries ({IN_FP8})"
        if self.format not in ESTIMATED_FORMATS:
            return f"No run in {self.format} is known (--precision bf16)"
        if self.checkpointing == "selective-op":
            return "No run with --checkpointing selective-op is known"
        return "" if self.work.layers else "It has no layers"

    @property
    def untimed(self) -> str:
        """Name what a step waits for and nobody measured, so that there is a floor alone; nothing without it."""
        plan = self.ran[1]
        parts = (
            "transfers to the host" * (plan.offload != "none" or plan.offload_activations),
            "expanding the quantized weights"
            * bool(plan.base_weights and not plan.base_weights.startswith(OF_BITSANDBYTES)),
            f"{optimizer(plan.optimizer).label}'s products of matrices" * optimizer(plan.optimizer).multiplies,
        )
        return " and ".join(filter(None, parts))

    @property
    def paged(self) -> bool:
        """Return whether states move to the host where the GPU is full, which is not in the estimate."""
        return "paged" in self.ran[1].optimizer

    @cached_property
    def own_parts(self) -> StepParts | None:
        """Seconds of a step by what they go to, by the rates of its own code; None where none are known."""
        machine = machine_of(self.accelerator)
        if machine is None or self.unknown:
            return None
        return self._parts(machine, rates_for(machine.generation, self.stack, self.question.rates))

    @cached_property
    def parts_of_trainers(self) -> StepParts | None:
        """Seconds by the rates of FSDP trainers, where code that runs operation by operation is on several GPUs.

        Its own rates are those of one GPU. Nobody timed it on several; the steps of fms-fsdp's compiled code on 96
        H100s take up to a third longer than these rates give.
        """
        machine = machine_of(self.accelerator)
        if self.own_parts is None or machine is None or self.question.rates is not None:
            return None
        if self.gpus == 1 or self.stack != EAGER:
            return None
        return self._parts(machine, rates_of(machine.generation, COMPILED), taped=False)

    @property
    def parts(self) -> StepParts | None:
        """The seconds that are told: no operation by itself is faster than it is in a trainer that fuses many."""
        own, other = self.own_parts, self.parts_of_trainers
        return own if own is None or other is None or own.seconds >= other.seconds else other

    @property
    def code(self) -> str:
        """Stack whose rates are told."""
        return self.stack if self.parts is self.own_parts else COMPILED

    @property
    def by_others(self) -> tuple[str, float] | None:
        """The stack whose rates are not told, as they give a shorter step, and its seconds."""
        own, other = self.own_parts, self.parts_of_trainers
        if own is None or other is None:
            return None
        stack, parts = (EAGER, own) if self.code == COMPILED else (COMPILED, other)
        return stack, self._with_scoring(parts)

    @property
    def estimate(self) -> Estimate | None:
        """Seconds of a step, by rates; None where none are known, of all of it or of a part."""
        return None if self.untimed else self.timed

    @cached_property
    def timed(self) -> Estimate | None:
        """Seconds of what is timed of a step; None where no rates are known."""
        machine = machine_of(self.accelerator)
        if machine is None or self.parts is None:
            return None
        experts = any(layer.experts for layer in self.work.layers)
        alone, file = self.gpus == 1 and self.plan.method == SFT, self.question.rates
        band = band_for(machine.generation, self.stack, file, experts=experts, alone=alone)
        return Estimate(self._with_scoring(self.parts), band)

    @property
    def moving(self) -> float:
        """Share of the step that moves bytes, where fp32 adapters make that longer than the products; else 0."""
        plan, parts = self.plan, self.parts
        in_fp32 = plan.lora is not None and plan.lora_dtype == FP32.name != precision(plan.precision).compute
        if parts is None or self.tape is None or not in_fp32 or parts.elementwise <= parts.products:
            return 0.0
        return float(parts.elementwise / parts.seconds)

    def _with_scoring(self, parts: StepParts) -> float:
        """Seconds with the reference model's pass: as many as its FLOPs are of those of the step's own passes."""
        flops = self.flops
        run_again = self.layout.again * flops.scored
        scoring = (parts.seconds - parts.optimizer) * flops.scored / (flops.trained + run_again)
        return float(parts.seconds + scoring)

    def parts_by(self, known: Mapping[str, Any]) -> StepParts:
        """Return the seconds of a step by a table of rates."""
        machine = machine_of(self.accelerator)
        assert machine is not None
        return self._parts(machine, rates_of(machine.generation, self.stack, known))

    def _parts(self, machine: Machine, rates: Rates, *, taped: bool = True) -> StepParts:
        if self.resolved[0].kernel in SCORES:
            rates = rates._replace(eager_attention=True)
        tape = self.tape if taped else None
        return StepTime(self.work, machine, rates, weights=self.weights, tape=tape).parts(self.layout)

    @cached_property
    def tape(self) -> TapeWork | None:
        """Work of a step by the tape; None for Megatron-LM, and where compiled code runs on several GPUs."""
        if self.stack != EAGER:
            return None
        run, plan = self.resolved
        return TapeWork(*self.peaks.made(step_run(run, with_method(plan)), plan))

    @cached_property
    def layout(self) -> Layouts:
        """Layout by which the GPUs share the model and the batch."""
        run, plan = self.ran[0], self.plan
        return Layouts(
            tp=value_of(plan.tensor_parallel),
            pp=value_of(plan.pipeline_parallel),
            vpp=value_of(plan.virtual_pipeline),
            cp=value_of(plan.context_parallel),
            dp=self.copies,
            micro_batch=value_of(step_run(run, with_method(self.ran[1])).batch_size),
            batches=value_of(plan.grad_accum),
            zero=int(self.plan.zero),
            again=again_of(self.ran[0]),
            modules=self.ran[0].modules_again,
        )

    @property
    def stack(self) -> str:
        """Name of the code whose rates are taken."""
        plan, file = self.plan, self.question.rates
        own = backend(plan.backend).stack
        usual = COMPILED if own == EAGER and plan.compile and self.gpus != 1 else own
        return usual if file is None else file.stack(usual)

    @cached_property
    def weights(self) -> WeightBytes:
        """Bytes of a parameter that its formats move."""
        by, base = precision(self.plan.precision), self.plan.base_weights
        cast = EXPANDED if base.startswith(OF_BITSANDBYTES) else CAST * (by.autocast and by.weights == FP32.bits)
        return WeightBytes.of(by, cast, bytes_of_a_number(optimizer(self.plan.optimizer), by.moments))

    @property
    def checkpointing(self) -> str:
        """Kind of checkpointing."""
        return self.ran[0].recompute

    @cached_property
    def step_seconds(self) -> float | None:
        """Seconds of a step: said, or estimated; None where neither is known."""
        pace = self.question.pace
        if pace.step_time is not None:
            return pace.step_time
        if pace.tokens_per_second is not None:
            return self.tokens_per_step / pace.tokens_per_second
        if pace.mfu is not None and self.floor:
            return self.at_the_peak / pace.mfu + self._reading(self.peak_flops * pace.mfu)
        return self.estimate.seconds if self.estimate else None

    @property
    def above(self) -> float:
        """Times the peak of its format that a speed which was said would take; 0 where it is one that can be."""
        seconds = self.step_seconds
        if not self.question.pace.given or not seconds or seconds >= self.computing:
            return 0.0
        return self.computing / seconds

    @property
    def other_format(self) -> str:
        """Format in which a step could take as short as was said, where it cannot in its own."""
        own, peaks = self.fastest_flops, self.accelerator.peaks
        return next((name for name in FASTER if 0 < self.above <= peaks.get(name, 0.0) / own), "")

    @property
    def beyond(self) -> bool:
        """Return whether a speed was said that no format of these GPUs allows."""
        return bool(self.above) and not self.other_format

    def check_pace(self) -> None:
        """Raise UsageError for a speed that no format of these GPUs allows."""
        if not self.beyond:
            return
        pace, name = self.question.pace, self.accelerator.name
        kind = f"{self.gpus} x {name}" if self.gpus > 1 else name
        said = f"{pace.step_time:g} s a step" if pace.step_time else f"{pace.tokens_per_second:,.12g} tokens/s"
        whose = "" if pace.step_time else whose_rate(self.above, self.gpus)
        step = f"a step is {self.tokens_per_step:,} tokens, and takes at least {self.floor:.3g} s"
        raise UsageError(
            f"{said} on {kind}: an MFU of {100 * self.above:,.0f} %, and one {OVER}",
            f"{whose}: --gpus {ceil(self.above)}" if whose else step,
        )

    @property
    def steps(self) -> float:
        """Number of steps of the run."""
        return self.question.tokens / self.tokens_per_step

    def hours(self, step_seconds: float) -> float:
        """Hours of the run, where a step takes this long."""
        return self.steps * step_seconds / SECONDS_OF_AN_HOUR

    @property
    def duration(self) -> float:
        """Hours of the run. It has them where its step has seconds."""
        assert self.step_seconds is not None
        return self.hours(self.step_seconds)

    @property
    def gpu_hours(self) -> float:
        """Hours of the run, of all GPUs."""
        return self.duration * self.gpus

    @property
    def banded(self) -> bool:
        """Return whether its hours are an estimate, with a band."""
        return self.estimate is not None and not self.question.pace.given

    @property
    def hours_low(self) -> float:
        """Lower end of the hours."""
        assert self.estimate is not None
        return self.hours(self.estimate.low)

    @property
    def hours_high(self) -> float:
        """Upper end of the hours."""
        assert self.estimate is not None
        return self.hours(self.estimate.high)

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines that another answer tells of it: its title, and what its numbers rest on."""
        sheet = Train(self.question).sheet()
        return sheet.title, *sheet.notes

    @cached_property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.accelerator, self.question.price, self.question.prices)


def again_of(run: Workload) -> float:
    """Return the share of the layers that run again in backward: all of them, or one of N.

    >>> again_of(Workload(phase="train", recompute="full")), again_of(Workload(phase="train", recompute="every:4"))
    (1.0, 0.25)
    """
    if run.recompute == "full":
        return 1.0
    return 1 / int(run.recompute.removeprefix("every:")) if run.recompute.startswith("every:") else 0.0


def _work(model: Model, length: int, plan: Training) -> ModelWork:
    run = Workload(seq_len=length, phase="train", attention="causal", recompute="none")
    return work_of(model, length, tuned(model.tree(run), plan))


ESTIMATED = found("by rates fitted to published runs (rates.toml), or those of --rates; or as --mfu and its like say")
FLOOR = When(lambda one: one.floor, "floor_hours")
TIMED = When(lambda one: one.step_seconds is not None, "step_seconds", mutual=True)
BANDED = When(lambda one: one.banded, "step_seconds_low", mutual=True)
UTILISED = When(lambda one: one.step_seconds is not None and one.floor, "mfu")
PRICED = When(lambda one: one.step_seconds is not None and one.price is not None, "cost", mutual=True)


class RunKeys(VerdictKeys):
    """A run on GPUs of one kind."""

    tokens_per_step = integer(
        "tokens of an optimizer's step", lambda one: one.tokens_per_step, found("batch, length, accumulation, copies")
    )
    step_flops = number(
        "FLOPs of an optimizer's step, of all GPUs, nothing recomputed; with passes that write and score completions",
        lambda one: one.flops_per_step,
        found("matrix products of visible pairs: forward and backward, and further forward passes of the method"),
    )
    floor_hours = number(
        "hours that no run is below: model FLOPs over the dense peak; of GRPO no less than its weights take to be read",
        lambda one: one.hours(one.floor),
        found(
            "FLOPs of the run, nothing recomputed, over the peak of all GPUs; and what reading the weights for each "
            "token of a completion takes beyond them"
        ),
        when=FLOOR,
    )
    step_seconds = number("seconds of a step", lambda one: one.step_seconds, ESTIMATED, when=TIMED)
    tokens_per_second = number(
        "tokens per second of all GPUs", lambda one: one.tokens_per_step / one.step_seconds, ESTIMATED, when=TIMED
    )
    mfu = number(
        "model FLOPs utilisation: all pairs of attention, or those of --attention, nothing recomputed",
        lambda one: one.at_the_peak / one.step_seconds,
        found("model FLOPs of a step over the peak of all GPUs and its seconds, as flops --mfu counts them"),
        when=UTILISED,
    )
    hours = number("hours of the run", lambda one: one.duration, ESTIMATED, when=TIMED)
    gpu_hours = number("hours of the run, of all GPUs", lambda one: one.gpu_hours, ESTIMATED, when=TIMED)
    step_seconds_low = number("lower end of the band", lambda one: one.estimate.low, ESTIMATED, when=BANDED)
    step_seconds_high = number("upper end of the band", lambda one: one.estimate.high, ESTIMATED, when=BANDED)
    hours_low = number("lower end of the hours", lambda one: one.hours_low, ESTIMATED, when=BANDED)
    hours_high = number("upper end of the hours", lambda one: one.hours_high, ESTIMATED, when=BANDED)
    cost = number(
        "US dollars of the run",
        lambda one: one.hours(one.step_seconds) * one.gpus * one.price.typical,
        ESTIMATED,
        when=PRICED,
    )
    price_per_gpu_hour = number(
        "US dollars for a GPU and an hour",
        lambda one: one.price.typical,
        given("given by --price, by [prices] of the settings file, or the dated list"),
        when=PRICED,
    )
    price_source = text("where the price is from", lambda one: one.price.origin, when=PRICED)


ONE = When(lambda answer: answer.question.card is not None, "run")
SEVERAL = When(lambda answer: answer.question.card is None, "runs")
FROM_FILE = When(lambda answer: answer.question.rates is not None)


class Train(Answer):
    """A training run: on the GPUs that were named, or a line for each common GPU."""

    command: ClassVar[str] = "train"
    about: ClassVar[str] = "A training run on one GPU or a few: whether it fits, how long it takes, what it costs."

    training_tokens = integer("tokens of the run", lambda answer: answer.question.tokens, given("given by --tokens"))
    rates_file = text(
        "the file of --rates, and what it was fitted to", lambda answer: answer.rates_used, when=FROM_FILE
    )
    run = record(RunKeys, "the run on the GPUs that were named", lambda answer: answer.only, when=ONE)
    runs = records(RunKeys, "the run on each GPU, the cheapest first", lambda answer: answer.each, when=SEVERAL)
    not_searched = texts(
        "GPUs on which not all changes were tried, and none makes it fit", lambda answer: answer.rest, when=SEVERAL
    )
    assumptions = texts("what was assumed", lambda answer: tuple(answer.assumed()))

    def __init__(self, question: TrainQuestion) -> None:
        self.question = question

    @cached_property
    def only(self) -> RunOnCard:
        """The run on the GPUs that were named."""
        card = self.question.card
        assert card is not None
        return RunOnCard(self.question, card, named_card(card), Peaks(self.question.model))

    @cached_property
    def _searched(self) -> tuple[list[RunOnCard], list[RunOnCard]]:
        peaks = Peaks(self.question.model)
        asked = [RunOnCard(self.question, *each, peaks, grows=False) for each in cards_of(self.question.cards)]
        with_verdict = [one for one in asked if one.answers]
        if not with_verdict:
            assert asked[0].status  # why there is none is raised here
        return searched(with_verdict)

    @cached_property
    def each(self) -> list[RunOnCard]:
        """The run on each of the GPUs on which it fits, the cheapest first, then the fastest."""
        return sorted((one for one in self.fitting if not one.beyond), key=_order)

    @property
    def fitting(self) -> list[RunOnCard]:
        """The run on each of the GPUs on which it fits, whatever speed was said."""
        return [one for one in self._searched[0] if one.possible]

    @property
    def rest(self) -> list[str]:
        """Names of the GPUs for which no time was left."""
        return [one.accelerator.name for one in self._searched[1]]

    @property
    def rates_used(self) -> str:
        """The file of rates, in words."""
        assert self.question.rates is not None
        return self.question.rates.words

    @property
    def succeeded(self) -> bool:
        """Return whether it fits as asked; without a GPU, whether it can fit on one."""
        return self.only.judge.fits if self.question.card else bool(self.each)

    @property
    def heading(self) -> str:
        """The model, and how it is trained."""
        told = [self.only] if self.question.card else self.each
        return told[0].judge.subtitle if told else self.question.model.summary

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of the step as asked, of the first GPU that is told of."""
        told = [self.only] if self.question.card else self.each
        return told[0].judge.report.definitions if told else {}

    def assumed(self) -> Iterator[str]:
        """Yield what was assumed."""
        told = [self.only] if self.question.card else self.each
        for stack in dict.fromkeys(one.code for one in told):
            whose = f"{CODE[stack]} (rates.toml)" if self.question.rates is None else self.rates_used
            yield f"seconds: rates of {whose}; data loading and checkpoints are not in it"
        yield "floor: FLOPs of visible pairs, nothing recomputed, over the dense peak"
        yield f"MFU: {PAIRS[self.question.pairs]} (--attention), nothing recomputed, dense peak; as flops --mfu"
        method = self.question.plan.method
        if method != SFT:
            yield f"{method}: tokens are those that are trained on; {PASSES[method]}"
        for one in [self.only] if self.question.card else self.each:
            if one.paged:
                yield f"{one.accelerator.name}: {PAGES} is not in the hours"
            if one.price is not None:
                yield f"{one.accelerator.name}: {one.price.typical:,.2f} USD an hour, {one.price.origin}"

    def sheet(self) -> Sheet:
        """The answer in a line, or a table over GPUs."""
        return self._of_card() if self.question.card else self._of_all()

    def _of_card(self) -> Sheet:
        one = self.only
        tokens = f"{short(self.question.tokens, billion='B')} tokens"
        if not one.possible:
            closest = "; ".join(one.judge.verdict.split(": ")[1:])
            what = OWN_CODE if one.may_fit_fused else "it"
            none = f"no change that was tried makes {what} fit"
            return self._sheet(f"{SAID[one.status]}: {closest}", [], none, *_of_experts(one))
        with_change = f" with {one.flags}" if one.flags else ""
        verdict = f"{SAID[one.judge.status]}{'; fits' if one.flags else ''}{with_change}"
        if one.step_seconds is None:
            title = (
                f"{verdict}: {tokens} in at least {duration(one.hours(one.floor))}"
                if one.floor
                else f"{verdict}; how long {tokens} take is not known"
            )
        else:
            title = f"{verdict}: {tokens} in {duration(one.hours(one.step_seconds))}{self._span(one)}{self._money(one)}"
        if in_time := self._in_time(one):
            title = f"{in_time}; on {name_of(one)}: {title}"
        return self._sheet(title, [_row(one, Train.run)], *self._notes(one))

    def _span(self, one: RunOnCard) -> str:
        if one.timed is None or self.question.pace.given:
            return ""
        low, high = (duration(one.hours(end)) for end in (one.timed.low, one.timed.high))
        unit = high.rpartition(" ")[2]
        return f" ({low.removesuffix(f' {unit}')} to {high})"

    def _money(self, one: RunOnCard) -> str:
        assert one.step_seconds is not None
        hours = one.hours(one.step_seconds) * one.gpus
        money = f", {money_in_words(hours * one.price.typical)}" if one.price else ""
        return f", {rounded(hours)} GPU hours{money}"

    def _shares(self) -> Iterator[str]:
        """Yield what gives hours where nothing is estimated."""
        if self.question.card is not None and self.only.accelerator.name == ANY_CARD:
            one, number = self.only, f"{self.only.card.gpus}x" * (self.only.card.gpus > 1)
            alike = (gpu for gpu in common() if gpu.memory == one.accelerator.memory and one.format in gpu.peaks)
            yield from (f"--gpu {number}{gpu.name} (hours on a card of {gpu.memory})" for gpu in alike)
        if self.question.card is not None and self.only.step_seconds is None and self.only.floor:
            price = self.only.price is None
            if self.question.plan.method not in WRITES:
                yield f"--mfu 35%{' --price 2.50' * price} (hours {'and money ' * price}at that share of the peak)"
            half = next((name for name in HALF if name in self.only.accelerator.peaks), "")
            if half and self.only.format == FP32.name:
                yield f"--precision {half}-mixed (products in 16 bits)"

    def _sooner(self) -> Iterator[str]:
        """Yield what ends a long run sooner: more sequences at once, and more GPUs."""
        one = self.only if self.question.card is not None else None
        if one is None or not one.possible or self.question.plan.method != SFT:
            return
        hours = one.hours(one.step_seconds or one.floor)
        run, plan = one.ran
        if hours > HOURS_OF_A_RUN and value_of(run.batch_size) * value_of(plan.grad_accum) == 1:
            yield "--batch N (sequences at once, not 1: fit --train --gpu NAME says how many)"
        more, rate = self._more_gpus(one, HOURS_OF_A_MONTH)
        if more and self.question.days is None:
            yield f"{more} (to end within a month, {rate})"

    def _more_gpus(self, one: RunOnCard, within: float) -> tuple[str, str]:
        """The options of as many GPUs as end the run within these hours, and at which rate; "" twice where one does.

        More than one server's are whole servers.
        """
        seconds = one.step_seconds or (one.timed.seconds if one.timed else one.floor)
        if not seconds or one.hours(seconds) <= within or one.gpus != one.card.gpus:
            return "", ""
        gpus = ceil(one.hours(seconds) * one.gpus / within)
        whole = gpus if gpus < OF_A_SERVER else ceil(gpus / OF_A_SERVER) * OF_A_SERVER
        rate = (
            "at the same rate per GPU" if one.step_seconds else f"without {one.untimed}" if one.timed else "at the peak"
        )
        return f"--gpu {whole}x{one.accelerator.name}{'' if one.gpus > 1 else ' --fsdp'}", rate

    def _in_time(self, one: RunOnCard) -> str:
        """Number of GPUs that end the run within the days that were asked for; "" where none were."""
        if self.question.days is None:
            return ""
        hours = self.question.days * HOURS_OF_A_DAY
        more, rate = self._more_gpus(one, hours)
        seconds = one.step_seconds or one.floor
        if more:
            return f"Within {duration(hours)}: {more}, {rate}"
        if not seconds or one.hours(seconds) > hours:
            return f"How many GPUs end it within {duration(hours)} is not known"
        return f"Within {duration(hours)}: {name_of(one)}{'' if one.step_seconds else ', at the peak'}"

    def _notes(self, one: RunOnCard) -> Iterator[str]:
        if not one.judge.fits:
            yield from _of_experts(one)
        if other := one.other_format:
            flag = f": --precision {other}-mixed" if other in HALF and one.format == FP32.name else ""
            least = f"In {one.format} it takes at least {duration(one.hours(one.floor))}"
            yield f"{least}, so its products have another format, such as {other}{flag}"
        if self.question.pace.mfu is not None and self.question.plan.method in WRITES:
            yield f"{one.unknown}; {AT_A_SHARE[self.question.plan.method]}"
        if one.step_seconds is None:
            share = "" if one.floor else NO_PEAK
            yield f"{one.unknown or f'Nobody timed {one.untimed}'}, so nothing is estimated{share}"
            if one.timed is not None:
                yield f"Without {one.untimed}: {duration(one.hours(one.timed.seconds))}{self._span(one)}"
        elif one.estimate is not None and not self.question.pace.given:
            floor = duration(one.hours(one.floor))
            by_file = self.question.rates is not None
            yield f"{one.estimate.in_words(one.code, by_file=by_file)}; never below {floor}"
            if by_others := one.by_others:
                told = f"would give {duration(one.hours(by_others[1]))}; the longer of both is told"
                yield f"Rates of {CODE[by_others[0]]} {told}"
            if self.question.rates is not None:
                yield f"Rates: {self.rates_used}"
            if one.paged:
                yield f"Not in these hours: {PAGES}"
            if one.moving:
                yield (
                    f"{one.moving * 100:.0f} % of a step moves bytes: fp32 adapters read and give copies in fp32, "
                    "so that LoRA may be slower than full training; --lora-dtype bf16 makes fewer"
                )
        if one.price is not None and one.step_seconds is not None:
            low, high = one.price.low, one.price.high
            span = f"; {low:,.2f} to {high:,.2f} were seen" if low < high else ""
            yield f"Price: {one.price.typical:,.2f} USD a GPU hour ({one.price.origin}){span}"
        elif one.step_seconds is not None:
            yield "No price is known for this GPU: --price 2.50"

    def _of_all(self) -> Sheet:
        rows = [_row(one, Train.runs, place) for place, one in enumerate(self.each)]
        tokens = f"{short(self.question.tokens, billion='B')} tokens"
        left = tuple(not_searched(self.rest))
        if not rows:
            among = f"{'any' if self.question.cards else 'any common'} GPU{of_those_searched(self.rest)}"
            perhaps = any(one.may_fit_fused for one in self._searched[0])
            state, why = (SAID[RISKY], [f"{OWN_CODE} does not fit; {FUSED_TAKE_LESS}"]) if perhaps else (SAID[NO], [])
            return self._sheet(f"{state} on {among}, {ALL_TRIED}: {tokens}", [], *why, *left)
        first = self.each[0]
        seconds = first.step_seconds
        if seconds is None:
            bound = f" in at least {duration(first.hours(first.floor))}" if first.floor else ", how long is not known"
            return self._sheet(f"{tokens}{bound}, on {name_of(first)}", rows, *left)
        told = f": {duration(first.hours(seconds))}{self._money(first)}"
        return self._sheet(f"{tokens}, cheapest on {name_of(first)}{told}", rows, *left)

    def _sheet(self, title: str, rows: list[list[Cell]], *notes: str) -> Sheet:
        return Sheet(
            title=title,
            subtitle=self.heading,
            columns=[
                Column("GPU", numeric=False),
                Column("change", numeric=False, folds=True),
                Column("peak GiB"),
                Column("tokens/s"),
                Column("hours"),
                Column("USD"),
            ],
            rows=rows,
            quiet=title,
            notes=notes,
            assumes=(),
            not_counted="",
            see_also=(*self._shares(), *self._sooner(), "--assumptions", "--json"),
            assumptions=tuple(self.assumed()),
        )


def _of_experts(one: RunOnCard) -> Iterator[str]:
    """Yield what finds layouts of a mixture's experts, which is not among the changes."""
    if one.judge.case.whole_mixture and machine_of(one.accelerator) is not None:
        yield f"{NO_EXPERT_PARALLELISM}: {one.judge.case.layouts_of_experts()}"


OF_A_SERVER, HOURS_OF_A_DAY = 8, 24
"""GPUs of a server, which are rented together."""
HOURS_OF_A_RUN = 1
"""Hours from which on a run with one sequence at a time is told of larger batches; of more GPUs from a month on."""


def _row(one: RunOnCard, *at: Key[Any] | int) -> list[Cell]:
    """A row of a table for the run at these keys of the answer."""
    seconds = one.step_seconds
    peak = of(InUnit(one.peak, "GiB"), *at, RunKeys.peak_bytes)
    if seconds is None:
        floor = f"> {rounded(one.hours(one.floor))}" if one.floor else None
        return [name_of(one), one.flags, peak, None, of(floor, *at, RunKeys.floor_hours), None]
    hours = one.hours(seconds)
    money = rounded(hours * one.gpus * one.price.typical) if one.price else None
    return [
        name_of(one),
        one.flags,
        peak,
        of(f"{one.tokens_per_step / seconds:,.0f}", *at, RunKeys.tokens_per_second),
        of(rounded(hours), *at, RunKeys.hours),
        of(money, *at, RunKeys.cost),
    ]


def _order(one: RunOnCard) -> tuple[bool, float, float]:
    seconds = one.step_seconds
    if seconds is None:
        return True, 0.0, one.hours(one.floor)
    hours = one.hours(seconds)
    return one.price is None, hours * one.gpus * one.price.typical if one.price else 0.0, hours


def duration(hours: float) -> str:
    """``45 minutes``, ``2.8 hours``, ``12.3 days``.

    >>> duration(0.75), duration(2.8), duration(300), duration(0.001), duration(1)
    ('45 minutes', '2.8 hours', '12.5 days', '3.6 seconds', '1 hour')
    """
    days = hours * SECONDS_OF_AN_HOUR / SECONDS_OF_A_DAY
    amount, unit = (rounded(days), "day") if days >= 3 else (rounded(hours), "hour")
    if hours < 1:
        amount, unit = f"{60 * hours:,.2g}", "minute"
    if hours < 1 / 60:
        amount, unit = f"{hours * SECONDS_OF_AN_HOUR:,.2g}", "second"
    return f"{amount} {unit}{'s' * (amount != '1')}"


def money_in_words(dollars: float) -> str:
    """``8.30 USD``.

    >>> money_in_words(8.3), money_in_words(12_345_678)
    ('8.30 USD', '12.3M USD')
    """
    return f"{dollars:,.2f} USD" if dollars < 1000 else f"{short(round(dollars))} USD"


def train(
    model: Model | str,
    tokens: int,
    workload: Workload | None = None,
    training: Training | None = None,
    *,
    gpu: str | None = None,
    price: float | None = None,
    mfu: float | None = None,
    tokens_per_second: float | None = None,
    step_time: float | None = None,
    rates: str | None = None,
) -> Train:
    """Find whether a training run fits, how long it takes, and what it costs.

    Args:
        model: as in :func:`~tfcalc.params`.
        tokens: tokens of the whole run.
        workload: batch and length of a step on one GPU; by default as in :func:`~tfcalc.memory`.
        training: how it is trained; by default all weights, with AdamW.
        gpu: the GPU, or several (``"h100"``, ``"8xh100"``); by default each common one.
        price: US dollars for a GPU and an hour; by default a dated list.
        mfu: share of the peak that it is said to reach; or one of the next two, in the place of an estimate.
        tokens_per_second: measured tokens per second of all GPUs.
        step_time: measured seconds of a step.
        rates: a file of rates that ``tfcalc calibrate`` wrote; by default those of published runs.

    Returns:
        Train: ``run`` on these GPUs, or ``runs`` on each common one: verdict, seconds with a band, hours, GPU hours,
        US dollars.

    Raises:
        InvalidModel: as :func:`tfcalc.memory`.
        UsageError: a utilisation that is none, or two speeds.

    >>> import tfcalc
    >>> run = train(tfcalc.load("gpt2"), 10**9, gpu="h100", mfu=0.4, price=2.0).run
    >>> run.status, round(run.cost / run.gpu_hours, 2)
    ('fits', 2.0)
    """
    pace = Pace(mfu, tokens_per_second, step_time)
    if sum(one is not None for one in pace) > 1:
        raise UsageError("mfu, tokens_per_second and step_time each say how fast it runs", "give one of them")
    file = None if rates is None else read_rates(rates)
    card = None if gpu is None else of_card(gpu, instead="")
    return trained(TrainQuestion(model_of(model), workload, training or Training(), tokens, card, pace, price, file))


def trained(question: TrainQuestion) -> Train:
    """Return the answer of a training's question. Raises UsageError for a utilisation that is none."""
    check_size("tokens", question.tokens, most=MOST_TOKENS)
    stages, chunks = question.plan.pipeline_parallel, question.plan.virtual_pipeline
    if stages != 1 and chunks != 1:
        schedule_of(chunks).check(stages, question.plan.grad_accum, chunks)
    mfu = question.pace.mfu
    if mfu is not None and not 0 < mfu <= 1:
        raise UsageError(f"an MFU of {mfu:g} is not from 0 to 1", "write 40% or 0.4")
    workload = question.workload or default_run(question.model).replaced(phase="train")
    answer = Train(question._replace(workload=workload.replaced(attention="full"), pairs=workload.attention))
    if question.pace.given:
        told = answer.fitting if question.card is None else [answer.only] * answer.only.possible
        if told and all(one.beyond for one in told):
            max(told, key=lambda one: one.fastest_flops).check_pace()
    return answer
