"""A training run on GPUs of one kind: what a step computes, its floor, its seconds, and the hours of the run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from tfcalc.answers.fit import VerdictOnCard
from tfcalc.answers.step_flops import SequenceFlops, sequence_flops
from tfcalc.answers.verdict import memory_within
from tfcalc.backends import backend
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.hardware import Accelerator
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import FP32, INT4
from tfcalc.plans import COLOCATE, DPO, GRPO, SERVER, SFT, Training
from tfcalc.search.gpus import Capacity
from tfcalc.timing.estimate import EAGER, OVER, SECONDS_OF_AN_HOUR, Estimate, Pace, whose_rate
from tfcalc.timing.rates import NO_PRICES, Machine, Price, Rates, machine_of, price_of, rates_of
from tfcalc.timing.rates_file import RatesFile, band_for, rates_for
from tfcalc.timing.step import Layouts, StepParts, StepTime, TapeWork, WeightBytes
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.training.adapters import tuned
from tfcalc.training.methods import WRITES, step_run, with_method
from tfcalc.training.optimizers import bytes_of_a_number, optimizer
from tfcalc.training.peaks import Peaks
from tfcalc.training.plan_checks import OF_BITSANDBYTES
from tfcalc.training.precisions import PRODUCTS_ALONE, precision
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model

ESTIMATED_FORMATS = ("bf16", "fp16")
"""Number formats of the published runs."""
COMPILED = "fsdp"
"""Stack whose rates compiled code on several GPUs takes: it is as FSDP trainers have it."""
HALF = ("bf16", "fp16")
FASTER = ("tf32", *HALF, "fp8")
"""Formats that products may have beside the one of a plan, those of most numbers first."""
SCORES = ("eager", "math")
"""Kernels of attention that write all scores."""
CAST, EXPANDED = 4 + 2, 0.5 + 0.0625 + 2
"""Bytes that a pass moves of a weight: autocast reads 32 bits and writes 16; expanding reads 4 bits and of 64 weights a
scale of 32, and writes 16."""
NO_METHOD, NO_GPU, NOT_IN_FILE, NO_LAYERS = "method", "gpu", "rates", "layers"
PRODUCTS_IN_FP8, NO_FORMAT, NO_CHECKPOINTING = "fp8", "format", "checkpointing"
"""Why nothing is estimated: no run is known with it; the file of rates has no such GPU; the model has no layers."""


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
    def tokens_of_step(self) -> int:
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
    def flops_of_mfu(self) -> float:
        """FLOPs of a step of all GPUs, by the pairs that an MFU counts: those of the floor are the visible ones."""
        run, plan = self.ran
        return sequence_flops(self.question.model, run, plan, self.question.pairs).all * self.sequences_per_step

    @property
    def at_the_peak(self) -> float:
        """Seconds of a step at an MFU of 1; 0 where the peak is not known."""
        return self.flops_of_mfu / (self.peak_flops * self.gpus) if self.peak_flops else 0.0

    def at_a_share(self, mfu: float) -> float:
        """Seconds of a step at this MFU."""
        return self.at_the_peak / mfu + self._reading(self.peak_flops * mfu)

    @property
    def unknown(self) -> str:
        """Return why nothing is estimated; empty where it is."""
        if self.plan.method in WRITES or (self.plan.method == DPO and self.stack != EAGER):
            return NO_METHOD
        machine, file = machine_of(self.accelerator), self.question.rates
        if machine is None:
            return NO_GPU
        if file is not None and machine.generation not in file.table["generations"]:
            return NOT_IN_FILE
        if self.plan.precision == PRODUCTS_ALONE:
            return PRODUCTS_IN_FP8
        if self.format not in ESTIMATED_FORMATS:
            return NO_FORMAT
        if self.checkpointing == "selective-op":
            return NO_CHECKPOINTING
        return "" if self.work.layers else NO_LAYERS

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
    def taped(self) -> bool:
        """Return whether the tape tells what is moved and called, and not the layers."""
        return self.tape is not None and self.code == self.stack

    @property
    def rates(self) -> Rates:
        """Rates by which the seconds that are told were found; there are some where there are such seconds."""
        machine = machine_of(self.accelerator)
        assert machine is not None
        if self.parts is self.own_parts:
            return self._by_kernel(rates_for(machine.generation, self.stack, self.question.rates))
        return self._by_kernel(rates_of(machine.generation, COMPILED))

    def _by_kernel(self, rates: Rates) -> Rates:
        return rates._replace(eager_attention=True) if self.resolved[0].kernel in SCORES else rates

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
        tape = self.tape if taped else None
        return StepTime(self.work, machine, self._by_kernel(rates), weights=self.weights, tape=tape).parts(self.layout)

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
    def seconds_of_step(self) -> float | None:
        """Seconds of a step: said, or estimated; None where neither is known."""
        pace = self.question.pace
        if pace.step_time is not None:
            return pace.step_time
        if pace.tokens_per_second is not None:
            return self.tokens_of_step / pace.tokens_per_second
        if pace.mfu is not None and self.floor:
            return self.at_a_share(pace.mfu)
        return self.estimate.seconds if self.estimate else None

    @property
    def above(self) -> float:
        """Times the peak of its format that a speed which was said would take; 0 where it is one that can be."""
        seconds = self.seconds_of_step
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
        whose = "" if pace.step_time else whose_rate(self.above, self.gpus)
        step = f"a step is {self.tokens_of_step:,} tokens, and takes at least {self.floor:.3g} s"
        raise UsageError(
            f"{pace.words} on {kind}: an MFU of {100 * self.above:,.0f} %, and one {OVER}",
            f"{whose}: --gpus {ceil(self.above)}" if whose else step,
        )

    @property
    def steps(self) -> float:
        """Number of steps of the run."""
        return self.question.tokens / self.tokens_of_step

    def hours(self, step_seconds: float) -> float:
        """Hours of the run, where a step takes this long."""
        return self.steps * step_seconds / SECONDS_OF_AN_HOUR

    def cost(self, step_seconds: float) -> float:
        """US dollars of the run, where a step takes this long. The GPU has a price."""
        assert self.price is not None
        return self.hours(step_seconds) * self.gpus * self.price.typical

    @property
    def duration(self) -> float:
        """Hours of the run. It has them where its step has seconds."""
        assert self.seconds_of_step is not None
        return self.hours(self.seconds_of_step)

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
