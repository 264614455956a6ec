"""Ranks of distributed training: what a GPU of each pipeline stage stores, computes and sends, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.common import check_arguments, check_plans, model_of
from tfcalc.answers.conventions_text import as_json
from tfcalc.core.measure import flops_of
from tfcalc.core.traced import value_of
from tfcalc.dimensions import facet
from tfcalc.errors import InvalidModel, UsageError, one_of
from tfcalc.model import asked_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.model import ModelWithHead
from tfcalc.placed.layout import Layout
from tfcalc.placed.ranks import OfData, Rank, Ranks, SentBits, buffer_of_deepspeed, buffer_size, sent_in_a_step
from tfcalc.placed.schedules import SCHEDULES, Schedule, StageTimes, schedule, schedule_of
from tfcalc.plans import Training
from tfcalc.report.declared import Answer, Key, Record, When, boolean, integer, number, record, records, shared, text
from tfcalc.report.opening import count, found, given, ratio
from tfcalc.report.opening import total as sum_of
from tfcalc.report.sheet import Bytes, Cell, Column, Rounded, Sheet, Short, of
from tfcalc.search.layouts import unsaid_stage
from tfcalc.search.possible import check_axis, check_sharding, check_stage, layers_of_stage
from tfcalc.timing.device_memory import DeviceMemory
from tfcalc.timing.rates import DEEPSPEED, FSDP, MEGATRON
from tfcalc.timing.stacks import KNOWN, WHOLE, Stored, TrainingStack
from tfcalc.timing.step import Layouts
from tfcalc.timing.work import work_of
from tfcalc.training.allocator import OutOfMemory, Reserved
from tfcalc.training.measured import Figure, on_card
from tfcalc.training.megatron import MegatronStep
from tfcalc.training.peaks import Peaks
from tfcalc.training.plan_checks import check_8_bits, check_plan
from tfcalc.training.precisions import precision
from tfcalc.training.step_terms import BACKWARD, LOSS, TrainingStep, bytes_in
from tfcalc.workload import AUTO, Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.placed.messages import Sent
    from tfcalc.search.gpus import Simulated

GIVEN = given("given, or its default")
BY_BOTH = found("by the tree of the stage and the layout")
STATES = found("the states of the stage's parameters, of experts and of all else over their own GPUs")


class LayoutKeys(Record):
    """The layout: how GPUs share the model, the sequence and the batch."""

    tp = integer("GPUs that share each layer (tensor parallelism)", lambda at: value_of(at.tp), GIVEN)
    pp = integer("stages of the pipeline", lambda at: value_of(at.pp), GIVEN)
    vpp = integer("chunks of layers in each stage", lambda at: value_of(at.vpp), GIVEN)
    cp = integer("GPUs that share each sequence (context parallelism)", lambda at: value_of(at.cp), GIVEN)
    ep = integer("groups of GPUs that share the experts", lambda at: value_of(at.ep), GIVEN)
    etp = integer("GPUs that share each expert", lambda at: value_of(at.of_an_expert), GIVEN)
    dp = integer(
        "GPUs that share the batch, with the same weights (data parallelism)", lambda at: value_of(at.dp), GIVEN
    )
    gpus = integer("GPUs in all", lambda at: value_of(at.gpus), ratio(".tp", ".pp", ".cp", ".dp"))
    replicas = integer("replicas of whole shards (HSDP)", lambda at: value_of(at.replicas), GIVEN)
    sequence_parallel = boolean(
        "whether GPUs of tensor parallelism share the tokens outside of attention and MLP",
        lambda at: bool(at.sequence_parallel and value_of(at.tp) != 1),
    )


BAND = found("measured over simulated, of published runs (card_memory.csv)")


class StagePeak(NamedTuple):
    """Peak of a GPU of a stage in bytes, in a ``phase``; of them those saved for backward, and gathered."""

    bytes: int
    saved: int
    gathered: int
    phase: str


class StageMemory(NamedTuple):
    """Peak of a GPU of a stage, and PyTorch's allocator on it, where that is simulated; whether Megatron-LM runs."""

    peak: StagePeak
    simulated: Simulated | None
    megatron: bool

    @property
    def reserved(self) -> Figure:
        """Bytes that PyTorch reserves; where its allocator is not simulated, what is allocated at least."""
        found = self.simulated(ENDLESS) if self.simulated is not None else None
        taken = self.peak.bytes if found is None else found.reserved
        return on_card(self.peak.bytes, taken, 0, megatron=self.megatron).reserved


ENDLESS = 2**62
"""Bytes of a card that has room for everything."""


class ReservedKeys(Record):
    """Bytes that PyTorch reserves on a GPU."""

    expected_bytes = integer(
        "bytes that PyTorch reserves",
        lambda one: one.reserved.bytes,
        found("by PyTorch's caching allocator, simulated; where it is not, an estimate: what is allocated"),
    )
    low_bytes = integer("lower end of these", lambda one: one.reserved.low, BAND)
    high_bytes = integer("upper end of these", lambda one: one.reserved.high, BAND)
    simulated = boolean(
        "whether the allocator was simulated; else it is an estimate, from the peak to the upper end of the band",
        lambda one: bool(one.simulated),
    )


class RankOfStage(NamedTuple):
    """A rank, the states that it stores, of experts and of all else, and its peak."""

    rank: Rank
    stored: tuple[Stored, ...]
    in_flight: float
    memory: StageMemory | None = None

    def bytes_of(self, *names: str) -> int:
        """Return the bytes of these states."""
        return sum(bytes_in(getattr(each.states.device, name)) for each in self.stored for name in names)


CUT = found("as the stack cuts tensors: FSDP2 along their first axis, DeepSpeed and Megatron-core into equal pieces")
BY_TAPE = found("by Megatron-LM's step, which runs on a tape; where that is not known, by plan's closed form")
PEAKS = When(lambda one: one.memory is not None)


class Stage(Record):
    """One GPU of a pipeline stage. All GPUs of a stage store as much."""

    stage = integer("the stage, from 0", lambda one: value_of(one.rank.at.stage), count("the stages, from 0"))
    layers = integer("layers on it", lambda one: value_of(one.rank.layers), count("its share of the layers"))
    params = integer("parameters that a GPU computes with", sum_of(".dense_params", ".expert_params"))
    dense_params = integer(
        "parameters but those of experts",
        lambda one: value_of(one.rank.others),
        found("the sum over the tree of what the GPU stores"),
    )
    expert_params = integer(
        "parameters of experts",
        lambda one: value_of(one.rank.experts),
        found("the sum over the tree of what the GPU stores of experts"),
    )
    stored_params = integer(
        "parameters of them that a GPU stores: the first one, which has most of the shards",
        lambda one: sum(value_of(each.params) for each in one.stored),
        CUT,
    )
    least_stored_params = integer(
        "parameters of them that the last GPU stores, which has fewest",
        lambda one: sum(value_of(each.fewest) for each in one.stored),
        CUT,
    )
    weights_bytes = integer("weights", lambda one: one.bytes_of("weights"), STATES)
    gradients_bytes = integer("gradients", lambda one: one.bytes_of("gradients"), STATES)
    optimizer_bytes = integer(
        "optimizer states, with master weights", lambda one: one.bytes_of("master", "optimizer"), STATES
    )
    states_bytes = integer("all these states", sum_of(".weights_bytes", ".gradients_bytes", ".optimizer_bytes"))
    flops = integer(
        "FLOPs of a GPU for one micro-batch, forward and backward",
        lambda one: value_of(one.rank.tree.total(flops_of(training=True, everything=False))),
        found("the sum over the tree of what the GPU computes"),
    )
    in_flight = number(
        "micro-batches whose activations are saved at once, at most, in those of a whole stage",
        lambda one: one.in_flight,
        found("by the schedule of the pipeline"),
    )
    activations_bytes = integer(
        "tensors saved for backward at the peak, of all micro-batches in flight",
        lambda one: one.memory.peak.saved,
        BY_TAPE,
        when=PEAKS,
    )
    gathered_bytes = integer(
        "weights gathered from other GPUs' shards at the peak, with gradients before they are shared out",
        lambda one: one.memory.peak.gathered,
        BY_TAPE,
        when=PEAKS,
    )
    allocated_bytes = integer("largest amount live at once", lambda one: one.memory.peak.bytes, BY_TAPE, when=PEAKS)
    reserved = record(ReservedKeys, "what PyTorch reserves", lambda one: one.memory, when=PEAKS)


class _Message(NamedTuple):
    """A message of a stage's GPUs in a step."""

    stage: int
    sent: Sent


class MessageKeys(Record):
    """A collective operation of a stage's GPUs, and how often it runs in a step."""

    stage = integer("the stage whose GPUs send it", lambda one: one.stage, count("the stages, from 0"))
    what = text("the operation: all-reduce, all-gather, reduce-scatter, all-to-all, send", lambda one: one.sent.name)
    group = text("what the GPUs share that it is sent between: tensor, data, expert, …", lambda one: one.sent.group)
    ranks = integer("how many GPUs these are", lambda one: value_of(one.sent.devices), found("by the layout"))
    bytes = integer("bytes of the whole tensor", lambda one: value_of(one.sent.bytes), BY_BOTH)
    times = integer("how often it runs in a step", lambda one: value_of(one.sent.times), BY_BOTH)
    sent_bytes = integer(
        "bytes that each GPU sends of it in a step, by NCCL's ring algorithms",
        lambda one: value_of(one.sent.times * one.sent.by_each),
        found("times · bytes · (n − 1)/n of n ranks, twice that of an all-reduce; of what is sent to one GPU, all"),
    )


class RanksAnswer(Answer):
    """Answer of ``ranks``: weights and states, FLOPs and messages of a GPU of each pipeline stage."""

    command, about = "ranks", "What one GPU of each pipeline stage stores, computes and sends in training."

    model = shared("model", lambda answer: answer.of.described())
    conventions = shared("conventions", lambda answer: as_json("flops", answer.run, Conventions()))
    layout = record(LayoutKeys, "how GPUs share the model, the sequence and the batch", lambda answer: answer.at)
    stack = text("whose code runs: megatron, fsdp or deepspeed", lambda answer: answer.by.name)
    micro_batch = integer("sequences of a micro-batch", lambda answer: value_of(answer.run.batch_size), GIVEN)
    micro_batches = integer("micro-batches of a step", lambda answer: value_of(answer.plan.grad_accum), GIVEN)
    zero = text("ZeRO stage of data parallelism", lambda answer: answer.plan.zero)
    precision = text("number formats of training", lambda answer: answer.plan.precision)
    schedule = text("order of the pipeline's work", lambda answer: answer.order.name)
    bubble = text(
        "idle time of a stage over the time that it works, as a fraction, where all stages, forward and each gradient "
        "take as long",
        lambda answer: str(answer.waiting),
    )
    bubble_share = number(
        "bubble as a number",
        lambda answer: float(answer.waiting),
        ratio("idle_passes", over=("micro_batches", "layout.vpp")),
        found("by the schedule's formula"),
    )
    idle_passes = number(
        "idle time of a stage, in the time of a micro-batch's passes through a chunk of its layers",
        lambda answer: float(answer.waiting * answer.micro_batches * value_of(answer.at.vpp)),
        found("by the schedule's formula: p - 1 of 1f1b and interleaved, p stages"),
    )
    largest_params = integer(
        "parameters of the GPU that stores most",
        lambda answer: max(stage.params for stage in answer.stages),
        found("the largest of the stages"),
    )
    stages = records(Stage, "one GPU of each stage", lambda answer: answer.found)
    messages = records(MessageKeys, "what each stage's GPUs send in a step", lambda answer: answer.sent)

    def __init__(
        self, model: Model, layout: Layout, run: Workload, plan: Training, order: Schedule, by: TrainingStack
    ) -> None:
        self.of, self.at, self.run, self.plan, self.order, self.by = model, layout, run, plan, order, by

    @cached_property
    def ranks(self) -> list[Rank]:
        """One GPU of each stage."""
        return Ranks(self.of.module(), self.at, self.run).stages

    @cached_property
    def found(self) -> list[RankOfStage]:
        """The stages, each with its states and its peak."""
        stages = (RankOfStage(rank, tuple(self._stored(rank)), self._in_flight(rank.at)) for rank in self.ranks)
        return [stage._replace(memory=self._memory(stage)) for stage in stages]

    def _memory(self, stage: RankOfStage) -> StageMemory | None:
        """The peak of a stage's GPU; None where neither a tape nor a closed form knows it."""
        at = stage.rank.at
        peak, simulated = self._on_tape(value_of(at.stage)) or (self._by_closed_form(stage), None)
        return None if peak is None else StageMemory(peak, simulated, self.by.name == MEGATRON)

    @property
    def whole_plan(self) -> Training:
        """The plan with the layout, as far as a plan of Megatron-LM has words for it."""
        at = self.at
        return self.plan.replaced(
            backend="megatron",
            gpus=at.gpus,
            tensor_parallel=at.tp,
            sequence_parallel=at.sequence_parallel,
            pipeline_parallel=at.pp,
            virtual_pipeline=at.vpp,
            context_parallel=at.cp,
        )

    def _on_tape(self, stage: int) -> tuple[StagePeak, Simulated | None] | None:
        """Peak by Megatron-LM's step, and its allocator; of the last stage's chunks that is not simulated.

        Of modules that run again Transformer Engine, which fuses a norm with what follows, saves less than the tape.
        """
        at, step = self.at, None
        uneven = at.first_layers is not None or at.last_layers is not None or at.counts_embedding or at.counts_loss
        if uneven or value_of(at.ep) != 1 or at.etp is not None or self.run.named_modules or self.by.name != MEGATRON:
            return None
        run = self.run.replaced(recompute=self._recompute)
        try:
            known = MegatronStep(self.of, *Peaks(self.of).resolved(run, self.whole_plan), stage)
            check_plan(known.plan)
            step = known.memory()
        except InvalidModel:
            return None
        chunks = value_of(at.vpp) != 1 and stage == value_of(at.pp) - 1
        peak = StagePeak(step.peak.total, step.peak.activations, step.peak.gathered, step.peak.name)
        return peak, None if chunks else cache(partial(_reserved, known, step))

    @property
    def _recompute(self) -> str:
        """Kind of checkpointing: nothing is recomputed where nothing is asked for."""
        return self.run.of_flops.recompute

    def _by_closed_form(self, stage: RankOfStage) -> StagePeak | None:
        """States of the stage, what ``plan`` knows to be saved for backward, and logits of the last stage."""
        at, work = stage.rank.at, work_of(self.of, value_of(self.run.seq_len))
        if not work.layers or self._recompute not in ("none", "full", "selective"):
            return None
        by = precision(self.plan.precision)
        own = Layouts(
            tp=value_of(at.tp),
            pp=value_of(at.pp),
            vpp=value_of(at.vpp),
            cp=value_of(at.cp),
            ep=value_of(at.ep),
            etp=value_of(at.of_an_expert),
            dp=value_of(at.dp),
            micro_batch=value_of(self.run.batch_size),
            batches=value_of(self.plan.grad_accum),
            zero=int(self.plan.zero),
            shards=value_of(at.shards) if self.by.name == FSDP else None,
            again=float(self._recompute == "full"),
            modules=self.run.modules_again,
            sequence_parallel=at.sequence_parallel,
            stages=(layers_of_stage([layer.copies for layer in work.layers], at),) * 3,
            between=value_of(at.stage),
        )
        memory = DeviceMemory.of_stack(
            self.by.name, work, own, eager=self.by.eager_attention, precision=by.compute, states=by
        )
        last = own.between == own.pp - 1
        between = own.between != 0 and not last
        states = stage.bytes_of("weights", "gradients", "master", "optimizer")
        peak = max(memory.moments(last=last, between=between), key=lambda one: float(one.bytes))
        phase = LOSS if peak.loss else BACKWARD
        return StagePeak(int(states + peak.bytes - peak.states), int(peak.saved), int(peak.gathered), phase)

    def _stored(self, rank: Rank) -> Iterator[Stored]:
        """Yield what is stored of experts and of all else, each over the GPUs with the same weights, or its shards."""
        at = self.at
        whole = (False, at.copies), (True, at.copies_of_experts)
        shards = (False, at.shards), (True, at.shards_of_experts)
        for experts, devices in shards if self.by.name == FSDP else whole:
            yield self.by.stored(rank.part(experts=experts), self.plan, value_of(devices))

    def _in_flight(self, at: Layout) -> float:
        return float(self.order.in_flight(at.stage, at.pp, self.plan.grad_accum, at.vpp).value)

    @property
    def waiting(self) -> Fraction:
        """The bubble's share, where forward, gradients of inputs and those of weights take as long."""
        share = self.order.share(StageTimes(1, 1, 1), self.at.pp, self.plan.grad_accum, self.at.vpp)
        return Fraction(share.value)

    @cached_property
    def sent(self) -> list[_Message]:
        """The messages of all stages."""
        by = precision(self.plan.precision)
        stage = int(self.plan.zero)
        weights = by.computed if by.cast_when_gathered and stage > 1 else by.weights
        buffer = buffer_of_deepspeed if self.by.name == DEEPSPEED else buffer_size
        how = OfData(stage, SentBits(weights, by.gradients), fsdp=by.cast_when_gathered, buffer=buffer)
        module = self.of.module()
        tied = isinstance(module, ModelWithHead) and module.output.tied_to is not None
        return [
            _Message(value_of(rank.at.stage), each)
            for rank in self.ranks
            for each in sent_in_a_step(rank, self.plan.grad_accum, how, activations=by.computed, tied=tied)
            if value_of(each.times)
        ]

    @property
    def answer(self) -> int:
        """The parameters of the GPU that stores most."""
        return self.largest_params

    @property
    def heading(self) -> str:
        """The model."""
        return self.of.summary

    @property
    def title(self) -> str:
        """``2 x 4 = 8 GPUs: 1,135,153,152 parameters on one, at most``."""
        at = self.layout
        sizes = {"tp": at.tp, "pp": at.pp, "cp": at.cp, "dp": at.dp}
        used = " x ".join(f"{name} {size:,}" for name, size in sizes.items() if size != 1) or "1 GPU"
        gpus = f" = {at.gpus:,} GPUs" if at.gpus != 1 else ""
        stored = max(stage.stored_params for stage in self.stages)
        kept = f", {stored:,} stored" if stored != self.largest_params else ""
        return f"{used}{gpus}: {self.largest_params:,} parameters on one, at most{kept}"

    def sheet(self) -> Sheet:
        """A row for each stage, and below it one for each of its messages."""
        rows: list[list[Cell]] = []
        depths = []
        for stage_place, stage in enumerate(self.stages):
            at: tuple[Any, ...] = (RanksAnswer.stages, stage_place)
            reserved = None if stage.source.memory is None else Bytes(stage.reserved.expected_bytes)
            own: dict[tuple[Key[Any], ...], Cell] = {
                (Stage.layers,): stage.layers,
                (Stage.params,): stage.params,
                (Stage.weights_bytes,): Bytes(stage.weights_bytes),
                (Stage.gradients_bytes,): Bytes(stage.gradients_bytes),
                (Stage.optimizer_bytes,): Bytes(stage.optimizer_bytes),
                (Stage.reserved, ReservedKeys.expected_bytes): reserved,
                (Stage.flops,): Short(stage.flops),
                (Stage.in_flight,): Rounded(stage.in_flight),
            }
            rows.append([f"stage {stage.stage}", *(of(cell, *at, *key) for key, cell in own.items()), *[None] * 3])
            depths.append(0)
            for place, one in enumerate(self.messages):
                if one.stage == stage.stage:
                    at = (RanksAnswer.messages, place)
                    each = (
                        of(one.times, *at, MessageKeys.times),
                        of(Bytes(one.bytes), *at, MessageKeys.bytes),
                        of(Bytes(one.sent_bytes), *at, MessageKeys.sent_bytes),
                    )
                    rows.append([f"{one.what}, {one.group} {one.ranks:,}", *[None] * 8, *each])
                    depths.append(1)
        return Sheet(
            title=self.title,
            subtitle=self.heading,
            columns=[
                Column("stage", numeric=False),
                Column("layers", spare=5),
                Column("parameters"),
                Column("weights", spare=4),
                Column("gradients", spare=6),
                Column("optimizer", spare=6),
                Column("reserved"),
                Column("FLOPs", spare=3),
                Column("in flight", spare=5),
                Column("times", spare=1),
                Column("bytes", spare=2),
                Column("sent"),
            ],
            rows=rows,
            quiet=of(self.answer, RanksAnswer.largest_params),
            notes=self.notes,
            depths=depths,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the bubble, on what is counted, and on what is taken for granted."""
        times = " times" if self.bubble_share > 1 else " of"
        layers = [stage.layers for stage in self.stages]
        ends = min(layers), max(layers)
        uneven = f", were the stages equal; they have {ends[0]:,} to {ends[1]:,} layers, and wait for the slowest"
        said = uneven if ends[0] != ends[1] else ""
        bubble = (f"Bubble of {self.schedule}: {self.bubble}{times} the work, {self.bubble_share:.2%}{said}",)
        sizes = f"micro-batch {self.micro_batch:,}, {self.micro_batches:,} of them in a step"
        stated = (
            f"{sizes}; ZeRO {self.zero}, {self.precision}{'' if self.stack == MEGATRON else f', {self.by.title}'}",
            "FLOPs are those of a micro-batch, forward and backward; all bytes and messages of a step, on one GPU",
        )
        of_all = [stage.source.memory for stage in self.stages]
        told = ", ".join(_band(one) for one in of_all[:MOST_BANDS] if one)
        again = {"none": "nothing recomputed"}.get(self._recompute, f"checkpointing {self.run.recomputed}")
        memory = (f"Reserved by PyTorch on the stages, {again}: {told}",)
        shared = (
            ("Experts: each gets the same number of tokens",)
            if any(stage.expert_params for stage in self.stages)
            else ()
        )
        return (*bubble * (self.layout.pp != 1), *memory * any(of_all), *stated, *shared, *self._sharded())

    def _sharded(self) -> Iterator[str]:
        """Yield what a GPU stores of the parameters, where it is a share."""
        most = max(self.stages, key=lambda stage: stage.stored_params)
        if most.stored_params == most.params:
            return
        least = most.least_stored_params
        last = f" ({least:,} on the last GPU)" if least != most.stored_params else ""
        yield f"Parameters are those that a GPU computes with; it stores {most.stored_params:,} at most{last}"


MOST_BANDS = 4
"""Stages whose bands people are told; programs get all."""


def _reserved(step: MegatronStep, found: TrainingStep, within: int) -> Reserved | None:
    """Return what PyTorch's allocator reserves on a card of ``within`` bytes; None where it runs out."""
    try:
        return step.reserved(found, within)
    except OutOfMemory:
        return None


def _band(one: StageMemory) -> str:
    low, high = (f"{size / 2**30:,.1f}" for size in (one.reserved.low, one.reserved.high))
    return f"{low} to {high} GiB{'' if one.simulated else ' (estimate)'}"


def ranks(
    model: Model | str,
    layout: Layout | None = None,
    workload: Workload | None = None,
    training: Training | None = None,
    *,
    order: str = "",
    stack: str = MEGATRON,
) -> RanksAnswer:
    """Answer what one GPU of each pipeline stage stores, computes and sends in a training step.

    Args:
        model: as in :func:`~tfcalc.params`.
        layout: how GPUs share it; by default one GPU has all of it.
        workload: the micro-batch and the length of its sequences; by default the usual one.
        training: number formats, optimizer, ZeRO's stage, and micro-batches of a step (``grad_accum``).
        order: name of the pipeline's schedule; by default Megatron-LM's, 1F1B or interleaved.
        stack: whose code runs: ``megatron``, ``fsdp`` (FSDP2; stages 2 and 3 of ZeRO, with ``replicas`` of the layout
            HSDP) or ``deepspeed``.

    Returns:
        RanksAnswer: ``stages`` with ``params``, bytes of states and ``flops`` each, ``messages``, and ``answer``, the
        parameters of the GPU that stores most.

    Raises:
        InvalidModel: the layout does not divide the model, the stack does not have it, or nobody knows how such a
            module is split.

    >>> import tfcalc
    >>> [stage.params for stage in ranks(tfcalc.load("llama-3-8b"), Layout(tp=2, pp=4)).stages]
    [1135149056, 872480768, 872480768, 1135153152]
    >>> [stage.stored_params for stage in ranks(tfcalc.load("llama-3-8b"), Layout(dp=64), stack="fsdp").stages]
    [125472832]
    """
    by = KNOWN[one_of("stack", stack, KNOWN)]
    model = model_of(model)
    at, plan = layout or Layout(), training or Training()
    check_arguments(model, workload, None)
    check_plans(plan, None)
    _refuse_idle(plan)
    run = asked_run(model, workload).replaced(phase="train")
    model.check(run)
    check_8_bits(plan, megatron=True)
    at, plan = _of_stack(at, plan, by)
    if plan.zero != "0" and value_of(at.copies) == 1:
        raise InvalidModel(f"ZeRO {plan.zero} has no effect without data parallelism", "add --dp 2")
    if at.sequence_parallel and value_of(at.tp) == 1:
        raise InvalidModel("sequence parallelism has no effect without tensor parallelism", "add --tp 2")
    if value_of(at.vpp) != 1 and value_of(at.pp) == 1:
        raise InvalidModel(f"--vpp {at.vpp} has no effect on a pipeline of one stage", "add --pp 2, or leave it out")
    chosen = schedule(order) if order else schedule_of(at.vpp)
    if not chosen.in_order:
        usual = ", ".join(name for name, each in SCHEDULES.items() if each.in_order)
        raise InvalidModel(
            f"the layers of each stage under {chosen.name} go back and forth: not modelled", f"use {usual}"
        )
    chosen.check(at.pp, plan.grad_accum, at.vpp)
    answer = RanksAnswer(model, at, run, plan, chosen, by)
    assert answer.ranks  # what cannot be shared is refused now
    return answer


TAKEN = ("precision", "optimizer", "zero", "grad_accum")
"""Fields of a plan of training that a layout goes with; of all others it has its own, or they are not known of it."""


def _refuse_idle(plan: Training) -> None:
    """Raise UsageError for a field of the plan that has no effect on a GPU of a layout."""
    for item in fields(Training):
        value, known = getattr(plan, item.name), facet(item)
        if item.name not in TAKEN and value != getattr(Training(), item.name):
            said = known.flags[0].split("/")[0] if known is not None and known.flags else item.name
            raise UsageError(
                f"{said} {value} has no effect on a GPU of a layout", "leave it out, or say it of the layout"
            )


def _of_stack(at: Layout, plan: Training, by: TrainingStack) -> tuple[Layout, Training]:
    """Return layout and plan with the stack's own number formats, stage and table. Raises InvalidModel."""
    check_stage(by.name, plan.zero)
    for axis, degree in (("vpp", at.vpp), ("cp", at.cp)):
        check_axis(by.name, axis, value_of(degree))
    if at.sequence_parallel and by.name == DEEPSPEED:
        fact = f"--sequence-parallel with --stack {by.name}, which does not have it"
        raise InvalidModel(fact, f"leave it out, or take --stack {MEGATRON}")
    usual = str(unsaid_stage(sharded=by.name == FSDP)) if value_of(at.copies) != 1 else WHOLE
    plan = plan.replaced(
        precision=by.precisions[0] if plan.precision == AUTO else plan.precision,
        zero=usual if plan.zero == AUTO else plan.zero,
    )
    if (known := precision(plan.precision).name) not in by.precisions:
        fact = f"--precision {known} is not one of --stack {by.name}"
        raise InvalidModel(fact, f"take {' or '.join(by.precisions)}")
    check_sharding(by.name, value_of(at.pp), int(plan.zero), value_of(at.replicas), value_of(at.ep))
    at = at._replace(drops_tokens=by.name == DEEPSPEED)
    return (at if by.name == MEGATRON else at._replace(rows=by.rows)), plan
