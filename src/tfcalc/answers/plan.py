"""Layouts of a training run over GPUs: the fastest that fit, what a step takes, and what the run costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tfcalc.answers.ranks import LayoutKeys
from tfcalc.errors import UsageError, one_of
from tfcalc.hardware import GIGA, TERA, Accelerator, named, parse_gpu
from tfcalc.report.declared import Answer, Key, Record, When, boolean, integer, number, record, records, text, texts
from tfcalc.report.opening import Constant, found, given, ratio
from tfcalc.report.sheet import Cell, Column, InUnit, Rounded, Share, Sheet
from tfcalc.search.axes import Axes
from tfcalc.search.layouts import EvaluatedLayouts, Space, enumerate_layouts, evaluate
from tfcalc.timing.estimate import SECONDS_OF_A_DAY, Estimate
from tfcalc.timing.numbers import is_array
from tfcalc.timing.rates import NO_PRICES, STACKS, Price, machine_of, price_of
from tfcalc.timing.rates_file import RatesFile, band_for, rates_for, read_rates
from tfcalc.timing.step import Layouts, StepParts
from tfcalc.timing.work import ModelWork, work_of
from tfcalc.units import short, short_bytes

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.timing.rates import Machine, Rates

DEEPSPEED = "deepspeed"
"""Stack of 2022, in which each GPU has the hidden vectors of all tokens."""
LEAST_SHARE = 0.001
"""Share of a step from which on a part is told."""
ESTIMATED = "by rates fitted to published runs (rates.toml), or those of --rates"


class PlanQuestion(NamedTuple):
    """Question of a plan.

    Attributes:
        model: the model.
        card: the GPU.
        gpus: how many there are.
        sequences: sequences of a step, of all GPUs.
        length: tokens of a sequence.
        fixed: axes that were given.
        stack: whose code runs: megatron, fsdp or deepspeed.
        precision: number format of the products.
        domain: GPUs with fast links among them, where it is not the card's own number.
        nic: bytes per second of a GPU to other nodes, where it is not the usual.
        tokens: tokens of the run, if it is asked for.
        price: US dollars for a GPU and an hour; else a dated list.
        measured: a measured rate in tokens per second and GPU, and the axes of the layout that it was measured with.
        top: layouts that are listed.
        attention_again: attention is recomputed, and nothing else (selective checkpointing).
        rates: a file of rates in the place of those of published runs.
        prices: one's own prices by the names of GPUs, before ``price`` and the dated list.
    """

    model: Model
    card: Accelerator
    gpus: int
    sequences: int
    length: int
    fixed: Axes
    stack: str = "megatron"
    precision: str = "bf16"
    domain: int | None = None
    nic: float | None = None
    tokens: int | None = None
    price: float | None = None
    measured: tuple[float, Axes] | None = None
    top: int = 5
    attention_again: bool = False
    rates: RatesFile | None = None
    prices: Mapping[str, Price] = NO_PRICES


class PlannedLayout(LayoutKeys):
    """Shares of the model and of the batch, and what a GPU does at once."""

    micro_batch = integer("sequences at once", lambda at: at.micro_batch, found("tried, or given"))
    zero = integer("stage of ZeRO", lambda at: at.zero, found("tried, or given"))
    recompute = text("checkpointing", lambda at: at.recompute)

    @property
    def words(self) -> str:
        """``tp2 pp8x10 cp2 dp32``: the degrees above 1."""
        at = self
        said = (
            f"tp{at.tp}" * (at.tp > 1),
            (f"pp{at.pp}" + f"x{at.vpp}" * (at.vpp > 1)) * (at.pp > 1),
            f"cp{at.cp}" * (at.cp > 1),
            f"ep{at.ep}" * (at.ep > 1),
            f"dp{at.dp}",
            f"b{at.micro_batch}" * (at.micro_batch > 1),
            f"zero{at.zero}" * (at.zero != 1),
            "full" * (at.recompute == "full"),
        )
        return " ".join(filter(None, said))


def _part(name: str, meaning: str) -> Key[float]:
    return number(f"seconds of {meaning}", lambda parts: float(getattr(parts, name)), found(ESTIMATED))


class PartsKeys(Record):
    """Parts of the seconds of a step; their sum is the step."""

    products_seconds = _part("products", "matrix products with weights")
    attention_seconds = _part("attention", "attention between its projections")
    experts_seconds = _part("experts", "products of routed experts")
    elementwise_seconds = _part("elementwise", "norms, activations and the launch of kernels")
    recomputation_seconds = _part("recomputation", "what is recomputed in backward")
    tensor_parallel_seconds = _part("tensor_parallel", "tensor parallel messages that are not hidden")
    context_parallel_seconds = _part("context_parallel", "context parallel messages that are not hidden")
    expert_parallel_seconds = _part("expert_parallel", "tokens to experts and back, where not hidden")
    bubble_seconds = _part("bubble", "waiting for other stages, at the beginning and the end of a step")
    data_parallel_seconds = _part("data_parallel", "gradients and weights that are not hidden")
    optimizer_seconds = _part("optimizer", "the optimizer's step")
    jitter_seconds = _part("jitter", "waiting for the slowest of many GPUs")


class BandKeys(Record):
    """Errors of published runs of the same class, their sources left out of the fit."""

    class_ = text("class of runs: dense, experts, other, measured", lambda band: band.kind)
    percent_p50 = number("half of them were closer, in per cent", lambda band: 100 * band.typical, found("learned"))
    percent_p90 = number("nine of ten were closer, in per cent", lambda band: 100 * band.most, found("learned"))
    rows = integer("runs of this class", lambda band: band.runs, found("counted"))


class ListedLayout(Record):
    """One of the fastest layouts."""

    layout = record(PlannedLayout, "the layout", lambda one: one.layouts)
    step_seconds = number("seconds of a step", lambda one: float(one.parts.seconds), found(ESTIMATED))
    peak_bytes = integer("bytes of the fullest GPU", lambda one: int(one.memory), found("by the closed form"))


RUN = When(lambda plan: plan.question.tokens is not None, "training_tokens")
FROM_FILE = When(lambda plan: plan.question.rates is not None)
COST = When(lambda plan: plan.question.tokens is not None and plan.price is not None, "cost")


class Plan(Answer):
    """The fastest layout, with those that are next to it."""

    command: ClassVar[str] = "plan"
    about: ClassVar[str] = "How GPUs should share a model in training, how long a step takes, and what a run costs."

    gpu = text("the GPU", lambda plan: plan.question.card.name)
    gpus = integer("GPUs in all", lambda plan: plan.question.gpus, given("given by --gpus"))
    stack = text("whose code runs", lambda plan: plan.question.stack)
    precision = text("number format of the matrix products", lambda plan: plan.question.precision)
    global_batch_size = integer(
        "sequences of a step, of all GPUs", lambda plan: plan.question.sequences, given("given by --global-batch-size")
    )
    seq_len = integer("tokens of a sequence", lambda plan: plan.question.length, given("given by --seq"))
    tokens_per_step = integer("tokens of a step", ratio("global_batch_size", "seq_len"))
    layout = record(PlannedLayout, "the fastest layout, or the one that was given", lambda plan: plan.best.layouts)
    micro_batches = integer(
        "micro-batches of a step on each copy",
        lambda plan: plan.best.layouts.batches,
        found("global batch over copies and micro-batch"),
    )
    step_seconds = number("seconds of a step: an estimate", lambda plan: plan.estimate.seconds, found(ESTIMATED))
    step_seconds_low = number("lower end of the band", lambda plan: plan.estimate.low, found("step over 1 + p90"))
    step_seconds_high = number("upper end of the band", lambda plan: plan.estimate.high, found("step over 1 - p90"))
    floor_seconds = number(
        "seconds that no run is below: model FLOPs over the dense peak",
        lambda plan: plan.floor,
        found("FLOPs of a step, nothing recomputed, over the peak of all GPUs at this precision"),
    )
    band = record(BandKeys, "how far published runs were from the estimate", lambda plan: plan.estimate.band)
    parts = record(PartsKeys, "where the seconds go", lambda plan: plan.scaled_parts)
    tokens_per_second = number("of all GPUs", ratio("tokens_per_step", over=("step_seconds",)))
    tokens_per_second_per_gpu = number("of a GPU", ratio("tokens_per_second", over=("gpus",)))
    mfu = number(
        "model FLOPs utilisation: visible pairs of attention, nothing recomputed, dense 16-bit peak",
        lambda plan: plan.work.flops * plan.tokens_per_second_per_gpu / plan.machine.peak,
        found("FLOPs per token times tokens per second and GPU, over the dense 16-bit peak"),
    )
    bubble_share = number(
        "share of the step that a stage waits for others",
        lambda plan: plan.bubble / plan.best.seconds,
        found("bubble over step"),
    )
    peak_bytes = integer(
        "bytes of the fullest GPU, by a closed form",
        lambda plan: int(plan.best.memory),
        found("weights, gradients, optimizer, what is saved for backward, and the loss of the fullest stage"),
    )
    usable_bytes = integer(
        "bytes of the GPU that a process can use", lambda plan: plan.room, found("the driver's figure less its context")
    )
    fits = boolean("whether it is within the GPU", lambda plan: plan.best.memory <= plan.room)
    training_tokens = integer(
        "tokens of the run", lambda plan: plan.question.tokens, given("given by --tokens"), when=RUN
    )
    days = number("days of the run", lambda plan: plan.seconds_of_run / SECONDS_OF_A_DAY, found(ESTIMATED), when=RUN)
    gpu_hours = number("hours of the run, of all GPUs", ratio("days", "gpus", Constant(24, "hours of a day")), when=RUN)
    cost = number("US dollars of the run", ratio("gpu_hours", "price_per_gpu_hour"), when=COST)
    price_per_gpu_hour = number(
        "US dollars for a GPU and an hour",
        lambda plan: plan.price.typical,
        given("given by --price, or the dated list"),
        when=COST,
    )
    price_source = text("where the price is from", lambda plan: plan.price.origin, when=COST)
    searched = integer("layouts in which everything divides", lambda plan: plan.searched, found("enumerated"))
    fitting = integer("of them those that fit", lambda plan: plan.fitting, found("compared with the GPU's memory"))
    equal_within = integer(
        "layouts within 2 % of the fastest: equal, as far as the estimate can tell",
        lambda plan: plan.found.alike(float(plan.best.seconds)),
        found("counted"),
    )
    layouts = records(ListedLayout, "the fastest layouts", lambda plan: plan.listed)
    rates_file = text(
        "the file of --rates, and what it was fitted to", lambda plan: plan.question.rates.words, when=FROM_FILE
    )
    assumptions = texts("what was assumed", lambda plan: plan.assumed)

    def __init__(self, question: PlanQuestion) -> None:
        self.question = question
        machine = machine_of(question.card, question.domain, question.nic)
        if machine is None:
            known = "A100, H100, H200, H800, B200, GB200, B300 and GB300"
            raise UsageError(
                f"no training run on {question.card.name} is known, so there is no rate to estimate by",
                f"take one of {known}; or ask flops --train --tokens for the FLOPs, memory --train for the memory",
            )
        self.machine: Machine = machine
        self.rates: Rates = rates_for(machine.generation, question.stack, question.rates)
        self.work: ModelWork = work_of(question.model, question.length)
        if not self.work.layers:
            raise UsageError(f"{question.model.summary} has no layers that GPUs could share", "take another model")
        self.room = question.card.usable().bytes
        sharing = question.stack != DEEPSPEED
        self.space = Space(
            self.work, question.gpus, question.sequences, question.fixed, sharing, question.attention_again
        )
        at = enumerate_layouts(self.space, machine.domain)
        self.searched = len(at.tp) if is_array(at.tp) else 1
        room = None if self.searched == 1 else float(self.room)
        self.found, _ = self._evaluated(at, room)
        self.fitting = self.found.within(self.room)
        self.order = self.found.order
        if not self.order:
            self.found, _ = self._evaluated(at, None)
            self.order = self.found.smallest_first

    def _evaluated(self, at: Layouts, room: float | None) -> tuple[EvaluatedLayouts, int]:
        question = self.question
        return evaluate(
            self.work,
            at,
            self.machine,
            self.rates,
            question.precision,
            stack=question.stack,
            room=room,
        )

    @property
    def price(self) -> Price | None:
        """Price of a GPU and an hour."""
        return price_of(self.question.card, self.question.price, self.question.prices)

    @cached_property
    def best(self) -> EvaluatedLayouts:
        """The fastest that fits; where none does, the one that takes least memory."""
        return self.found.at(self.order[0])

    @property
    def listed(self) -> list[EvaluatedLayouts]:
        """The first of them."""
        return [self.found.at(place) for place in self.order[: self.question.top]]

    @cached_property
    def scale(self) -> float:
        """Factor of a measured run over its estimate; 1 without one."""
        if self.question.measured is None:
            return 1.0
        rate, axes = self.question.measured
        space = self.space._replace(fixed=self.question.fixed.with_those(axes))
        at = enumerate_layouts(space, self.machine.domain)
        of_it, _ = self._evaluated(at, None)
        tokens = self.question.sequences * self.question.length
        return tokens / (rate * self.question.gpus) / float(of_it.at(of_it.order[0]).seconds)

    @cached_property
    def estimate(self) -> Estimate:
        """Seconds of a step of the best layout."""
        experts = any(layer.experts for layer in self.work.layers)
        measured = self.question.measured is not None
        stack, file = self.question.stack, self.question.rates
        band = band_for(self.machine.generation, stack, file, experts=experts, measured=measured)
        return Estimate(float(self.best.parts.seconds) * self.scale, band)

    @property
    def scaled_parts(self) -> StepParts:
        """Parts of the step, scaled as the step is."""
        return StepParts(*(part * self.scale for part in self.best.parts))

    @property
    def bubble(self) -> float:
        """Seconds of the bubble, as estimated."""
        return float(self.best.parts.bubble)

    @property
    def floor(self) -> float:
        """Seconds of the FLOPs alone at the dense peak of the precision."""
        peaks = self.question.card.peaks
        peak = max(peaks.get(self.question.precision.removeprefix("mx").removeprefix("nv"), 0), peaks["bf16"])
        tokens = self.question.sequences * self.question.length
        return self.work.flops * tokens / (peak * self.question.gpus)

    @property
    def seconds_of_run(self) -> float:
        """Seconds of all steps."""
        assert self.question.tokens is not None
        return self.question.tokens / (self.question.sequences * self.question.length) * self.estimate.seconds

    @property
    def succeeded(self) -> bool:
        """Return whether a layout fits."""
        return self.fitting > 0

    @property
    def heading(self) -> str:
        """The model and the machine."""
        question = self.question
        return f"{question.model.summary} on {question.gpus:,} x {question.card.name}"

    @property
    def assumed(self) -> tuple[str, ...]:
        """Assumptions of the answer."""
        return tuple(self._assumed())

    def _assumed(self) -> Iterator[str]:
        machine, question = self.machine, self.question
        yield (
            f"links: {machine.bus / GIGA:,.0f} GB/s among {machine.domain} GPUs, "
            f"{machine.nic / GIGA:,.4g} GB/s of each GPU to others (links.csv)"
        )
        yield "experts are balanced; a token goes to a node once" if self.best.layouts.ep > 1 else "equal devices"
        yield f"MFU: attention of visible pairs, no recomputation, dense 16-bit peak {machine.peak / TERA:,.5g} TFLOP/s"
        if question.tokens is not None and self.price is None:
            yield "no price is known for this GPU: --price 2.50"
        yield (
            "memory: what is saved for backward in 16 bits, on the GPU, nothing recomputed but whole layers; runs "
            "that offload it, save it in 8 bits or recompute some modules take less"
        )
        yield "not in it: data loading, checkpoints, failures, warm-up"

    def sheet(self) -> Sheet:
        """The fastest layouts; then where the step goes, and what the run costs."""
        best = self.layout.words
        low, high = self.step_seconds_low, self.step_seconds_high
        span = f"{seconds_in_words(low)} to {seconds_in_words(high)}"
        title = f"{best}: {seconds_in_words(self.step_seconds)} a step ({span})"
        if not self.succeeded:
            short_by = short_bytes(int(self.best.memory) - self.room, "iec")
            title = f"DOES NOT FIT: {best} is the closest, {short_by} beyond the {short_bytes(self.room, 'iec')} usable"
        tokens = self.tokens_per_step
        rows: list[list[Cell]] = []
        for one in self.layouts:
            seconds = one.step_seconds * self.scale
            rate = tokens / seconds / self.gpus
            share = Share(round(1e6 * self.work.flops * rate / self.machine.peak), 10**6)
            rows.append(
                [
                    one.layout.words,
                    Rounded(seconds),
                    Rounded(rate),
                    share,
                    InUnit(one.peak_bytes, "GiB"),
                    InUnit(self.room - one.peak_bytes, "GiB"),
                ]
            )
        return Sheet(
            title=title,
            subtitle=self.heading,
            columns=[
                Column("layout", numeric=False),
                Column("step s"),
                Column("tok/s/GPU"),
                Column("MFU"),
                Column("GiB"),
                Column("spare"),
            ],
            rows=rows,
            quiet=Rounded(self.step_seconds),
            notes=tuple(self._notes()),
            assumes=(),
            not_counted="",
            see_also=("--assumptions", "--json"),
            assumptions=self.assumed,
        )

    def _notes(self) -> Iterator[str]:
        if self.searched > 1:
            yield (
                f"{self.searched:,} layouts: {self.fitting:,} fit, {self.searched - self.fitting:,} do not; "
                f"{self.equal_within:,} lie within 2 % of the first: equal, as far as this estimate can tell"
            )
        step = self.best.parts.seconds
        shares = {name.replace("_", " "): float(part / step) for name, part in self.best.parts._asdict().items()}
        told = [
            f"{name} {share:.1%}" for name, share in sorted(shares.items(), key=lambda item: -item[1]) if share > 0.001
        ]
        yield f"Where the step goes: {', '.join(told)}".replace("%", " %")
        if self.question.tokens is not None:
            yield self._of_run()
        yield f"Seconds are an estimate: {self.estimate.band.words}; never below {seconds_in_words(self.floor)}"
        if self.question.rates is not None:
            yield f"Rates: {self.question.rates.words}"

    def _of_run(self) -> str:
        tokens, hours = short(self.training_tokens, billion="B"), short(round(self.gpu_hours))
        said = f"{tokens} tokens: {self.days:,.4g} days, {hours} GPU hours"
        if self.price is None:
            return f"{said}; --price 2.50 says what they cost"
        price = self.price
        assert price is not None
        span = f", {price.low:,.2f} to {price.high:,.2f} were seen" if price.low != price.high else ""
        return f"{said}, {short(round(self.cost))} USD at {price.typical:,.2f} ({price.origin}{span})"


def seconds_in_words(seconds: float) -> str:
    """``16.1 s``."""
    return f"{seconds:,.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def plan(
    model: Model,
    gpu: str,
    sequences: int,
    seq_len: int | None = None,
    *,
    tokens: int | None = None,
    stack: str = "megatron",
    precision: str = "bf16",
    checkpointing: str | None = None,
    price: float | None = None,
    rates: str | None = None,
    top: int = 5,
    **axes: int,
) -> Plan:
    """Find the layouts of a training step that are fastest.

    Args:
        model: as in :func:`~tfcalc.params`.
        gpu: the GPUs by their name and number (``"64xh100"``).
        sequences: sequences of a step, of all GPUs.
        seq_len: tokens of a sequence; by default as many as the model usually trains on.
        tokens: tokens of the whole run, for days and dollars.
        stack: whose code runs: megatron, fsdp or deepspeed.
        precision: number format of the matrix products.
        checkpointing: none, full or selective; by default none and full are tried.
        price: US dollars for a GPU and an hour; by default a dated list.
        rates: a file of rates that ``tfcalc calibrate`` wrote; by default those of published runs.
        top: layouts that are listed.
        axes: what is fixed of the layout: ``tp``, ``pp``, ``vpp``, ``cp``, ``ep``, ``etp``, ``micro_batch``, ``zero``.

    Returns:
        Plan: the fastest layout that fits, ``step_seconds`` with a band, ``parts``, and ``layouts`` next to it.

    Raises:
        UsageError: nothing divides, or no rate is known for the GPU.

    >>> import tfcalc
    >>> at = {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "zero": 1, "micro_batch": 8}
    >>> found = plan(tfcalc.load("gpt2"), "8xh100", 64, checkpointing="none", **at)
    >>> found.layout.dp, found.fits, found.step_seconds > found.floor_seconds
    (8, True, True)
    """
    counted, name = parse_gpu(gpu)
    known = dict.fromkeys(("none", "full", "selective"))
    kind = None if checkpointing is None else one_of("checkpointing", checkpointing, known)
    if unknown := next((axis for axis in axes if axis not in Axes._fields), ""):
        raise UsageError(f"{unknown} is no axis of a layout", f"those are {', '.join(Axes._fields[:-1])}")
    return planned(
        PlanQuestion(
            model=model,
            card=named(name)[0],
            gpus=counted,
            sequences=sequences,
            length=int(model.usual_length if seq_len is None else seq_len),
            fixed=Axes(**axes, again=None if kind is None else int(kind == "full")),
            stack=one_of("stack", stack, dict.fromkeys(STACKS)),
            precision=precision,
            tokens=tokens,
            price=price,
            top=top,
            attention_again=kind == "selective",
            rates=None if rates is None else read_rates(rates),
        )
    )


def planned(question: PlanQuestion) -> Plan:
    """Return the answer of a plan's question. Raises UsageError where nothing divides, or no rate is known."""
    return Plan(question)
