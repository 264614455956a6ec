"""Device of Megatron-LM in training: its share of the states, what backward needs, and micro-batches in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.backends import backend
from tfcalc.backends.megatron import NUMERICS, Megatron
from tfcalc.backends.program import ModuleProgram
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, one_of
from tfcalc.model import remembering
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.model import ModelWithHead
from tfcalc.nn.module import Module, counted
from tfcalc.number_formats import BF16
from tfcalc.placed.dropout import with_dropout
from tfcalc.placed.layout import Layout, check_even, check_least
from tfcalc.placed.modules import PipelineStage
from tfcalc.placed.rules import check_saved, on_device
from tfcalc.placed.schedules import schedule_of
from tfcalc.plans import EXPANDABLE, TRAINER
from tfcalc.tape.memory_tracker import Kept, MemorySnapshot
from tfcalc.tape.moments import Allocation, StepRecorder
from tfcalc.training.allocator import AllocatorSettings, Reserved, sizes
from tfcalc.training.allocator import reserved as reserved_by
from tfcalc.training.plan_checks import gradients_stay, placement_of, trained
from tfcalc.training.precisions import precision
from tfcalc.training.sharding import LAYER
from tfcalc.training.states import NOTHING, Overheads
from tfcalc.training.step import activations
from tfcalc.training.step_terms import (
    STEP,
    TrainingStep,
    alive,
    buffers_of,
    bytes_in,
    highest,
    phases,
    standing_of,
    states_of,
    temporaries,
)
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training


RECOMPUTED = ("none", "selective", "full")


class MegatronStep(NamedTuple):
    """A training step on a device of a ``stage``, by default of the first one."""

    model: Model
    run: Workload
    plan: Training
    stage: int = 0

    @property
    def at(self) -> Layout:
        """The stage's place."""
        return layout_of(self.plan)._replace(stage=self.stage)

    def memory(self) -> TrainingStep:
        """Find what is live at the peak, and what it is made of. Raises InvalidModel.

        Korthikanti et al. 2022 (arXiv 2205.05198) know no temporary: their peak is at the start of backward. Of today's
        code the last micro-batch in flight runs, over what the others have saved.
        """
        model, run, plan, stage = self
        check_steps(plan)
        if plan.loop != TRAINER:
            raise InvalidModel(f"--loop {plan.loop} has no effect with --backend {plan.backend}", "leave it out")
        model_, plan_ = remembering(model), remembering(plan)
        run, run_ = shared_out(run, plan), shared_out(remembering(run), plan_)
        sized = held_on_device(on_device(model.module(), self.at), run, plan)
        piece = on_device(model_.module(), layout_of(plan_)._replace(stage=stage))
        tree = held_on_device(piece, run_, plan)
        saved = saved_on_device(piece, tree, run_, layout_of(plan_)._replace(stage=stage), plan.backend)
        by, placement = precision(plan.precision), placement_of(plan)
        states = states_of(tree, sized, plan)
        beside = Overheads(buffers_of(tree, run_, by), NOTHING if plan.of_2022 else dummy_gradients(tree))
        scratch = 0 if placement.offload != "none" else bytes_in(states.step)
        stays = not plan.of_2022 or gradients_stay(by, placement) or plan.grad_accum != 1
        gradients, gathered = bytes_in(states.device.gradients), bytes_in(states.gathered)
        standing = standing_of(states, beside)
        recorder = None if plan.of_2022 else chunk_of(*self, ends_alone=True)
        moments = over(bytes_in(saved), recorder)
        found = phases(standing, gradients, moments, gathered, scratch, gradients_resident=stays)
        peak = highest(found)
        passing = Component("temporary", "temporary")
        if peak.name == STEP:
            passing = states.step
        elif recorder is not None:
            passing = temporaries(recorder, peak)
        live = alive(states, states.device.gradients, saved, beside, passing, peak)
        return TrainingStep(live, found, peak, saved, states, beside, passing)

    def reserved(self, step: TrainingStep, limit: int | None = None) -> Reserved:
        """Simulate the caching allocator, of this ``step``, on a card with ``limit`` bytes. Raises OutOfMemory.

        Weights are tensors of their own until one buffer takes them in, beside that of gradients, if the optimizer is
        distributed. Chunks run as many ahead as the schedule has it, then one backward after each forward.

        Source: Megatron-core's ``_ParamAndGradBuffer``; ``forward_backward_pipelining_without_interleaving``.
        """
        plan, recorder = self.plan, chunk_of(*self)
        device = step.placed.device
        weights, gradients = bytes_in(device.weights), bytes_in(device.gradients)
        moved = [] if plan.zero == "0" else list(sizes(device.weights))
        before = [*((place, size, 0) for place, size in enumerate(moved) if size)]
        before += [(len(moved), gradients, 0)] if gradients else []
        if moved:
            before += [(len(moved) + 1, weights, 0), *((place, 0, 0) for place, size in enumerate(moved) if size)]
        states = step.placed._replace(
            device=device._replace(weights=NOTHING if moved else device.weights, gradients=NOTHING)
        )
        if plan.offload != "none":
            states = states._replace(step=NOTHING)
        ahead = value_of(chunks_in_flight(self.at))
        chunks = max(ahead, value_of(plan.grad_accum) * value_of(plan.virtual_pipeline))
        events = pipelined(recorder.noted.events, recorder.forward_events, ahead, min(chunks, ahead + STEADY))
        settings = AllocatorSettings(limit=limit, expandable_segments=plan.alloc_conf == EXPANDABLE)
        return reserved_by(states, list(step.beside), events, settings, gradients_resident=False, before=before)


class FullestStage(NamedTuple):
    """The stage that holds most, the first one or the last, with its ``step``, and the step of the ``first`` one."""

    stage: MegatronStep
    step: TrainingStep
    first: TrainingStep

    def reserved(self, limit: int | None = None) -> Reserved:
        """Simulate the caching allocator. Raises OutOfMemory.

        Of the last stage's chunks, of which only one has the head, it is that of the first stage, with as many bytes
        more as are allocated.
        """
        if not self.stage.stage or value_of(self.stage.at.vpp) == 1:
            return self.stage.reserved(self.step, limit)
        more = self.step.peak.total - self.first.peak.total
        found = self.stage._replace(stage=0).reserved(self.first, None if limit is None else limit - more)
        return found._replace(reserved=found.reserved + more, allocated=found.allocated + more)


def fullest_stage(model: Model, run: Workload, plan: Training) -> FullestStage:
    """Find the stage that holds most.

    The first has most micro-batches in flight, the last the logits: its step runs where these may be more. Korthikanti
    et al. 2022 (arXiv 2205.05198) count the first one.
    """
    first = MegatronStep(model, run, plan)
    step = first.memory()
    found = FullestStage(first, step, step)
    stages = value_of(plan.pipeline_parallel)
    module = model.module()
    if stages == 1 or plan.of_2022 or not isinstance(module, ModelWithHead):
        return found
    last = first._replace(stage=stages - 1)
    waiting = 1 - Fraction(value_of(chunks_in_flight(last.at)), value_of(chunks_in_flight(first.at)))
    tokens = value_of(run.batch_size) * value_of(shared_out(run, plan).seq_len)
    logits = MOST_OF_A_LOGIT * tokens * value_of(module.output.fan_out) // value_of(plan.tensor_parallel)
    if logits > waiting * bytes_in(step.saved):
        other = last.memory()
        if other.peak.total > step.peak.total:
            found = FullestStage(last, other, step)
    return found


MOST_OF_A_LOGIT = 12
"""Bytes of a logit that are live at once while the loss is computed, at most."""


def chunk_of(model: Model, run: Workload, plan: Training, stage: int = 0, *, ends_alone: bool = False) -> ChunkRecorder:
    """Forward and backward of a micro-batch through a chunk of a stage's layers, with every allocation.

    Of several chunks the first one, which has the embedding on the first stage; on the last stage that with the head.

    Gradients of weights are added to their buffer. ``ends_alone``: of equal layers those at the ends run, which is
    enough to find when most is live.
    """
    at, run = layout_of(plan), shared_out(run, plan)
    chunk = stage + (at.pp * (at.vpp - 1) if stage == at.pp - 1 else 0)
    piece = on_device(model.module(), at._replace(pp=at.pp * at.vpp, vpp=1, stage=chunk))
    tree = held_on_device(piece, run, plan)
    running = ModuleProgram(piece, run, NUMERICS, backend(plan.backend)())
    running.trace.ends_alone = ends_alone
    tape, recorder = running.tape, ChunkRecorder()
    tape.tracker, tape.lists, tape.gradients_stay = recorder, False, False
    recorder.begin("forward")
    last = running(tree)
    recorder.saved_by_forward, recorder.forward_events = recorder.saved, len(recorder.noted.events)
    if last.node is None:
        raise InvalidModel("nothing is trained", "freeze fewer modules")
    recorder.begin("backward")
    tape.backward(last)
    recorder.begin(STEP)
    return recorder


class ChunkRecorder(StepRecorder):
    """Records a chunk: what forward leaves saved, and how many of the events are forward's."""

    __slots__ = ("forward_events", "saved_by_forward")
    forward_events: int
    saved_by_forward: int


def over(saved: int, recorder: ChunkRecorder | None) -> Mapping[str, MemorySnapshot]:
    """Highest moments of forward and backward of the last chunk in flight, where all in flight have ``saved`` so much.

    Without a recorder the start of backward.
    """
    if recorder is None:
        start = MemorySnapshot()
        start.total = start.saved = saved
        return {"backward": start}
    others = saved - recorder.saved_by_forward
    for moment in recorder.phases.values():
        moment.total += others
        moment.saved += others
    return recorder.phases


STEADY = 2
"""Chunks that are simulated beyond those that run ahead: later ones find the blocks of these."""


def pipelined(events: Sequence[Allocation], forward: int, ahead: int, chunks: int) -> list[Allocation]:
    """Events of ``chunks`` equal chunks, ``ahead`` of which are in flight; the first ``forward`` are forward's.

    >>> pipelined([(0, 8, 0), (0, 0, 0)], 1, ahead=2, chunks=2)
    [(0, 8, 0), (2, 8, 0), (0, 0, 0), (2, 0, 0)]
    """

    def ran(part: Sequence[Allocation], chunk: int) -> Iterator[Allocation]:
        return ((number + chunk * len(events), size, stream) for number, size, stream in part)

    left = {number for number, size, _ in events if size} - {number for number, size, _ in events if not size}
    ends = [*events[forward:], *((number, 0, 0) for number in sorted(left))]
    made: list[Allocation] = []
    for turn in range(chunks + ahead - 1):
        if turn < chunks:
            made += ran(events[:forward], turn)
        if turn >= ahead - 1:
            made += ran(ends, turn - ahead + 1)
    return made


def dummy_gradients(tree: Component) -> Component:
    """Gradients that autograd is given of matrices whose own are summed up in place: one of each shape, in bf16.

    Source: Transformer Engine's ``get_dummy_wgrad``, which keeps them; its matrices are those of layers, packed:
    queries with keys and values, a gate with its other half.
    """
    kinds: dict[tuple[int, ...], tuple[Held, ...]] = {}
    for node in tree.walk():
        if node.component.kind == LAYER:
            inside = [weight for each in node.component.walk() for weight in each.component.own.weights]
            matrices = [weight for weight in inside if weight.turned and not weight.frozen]
            made = tuple(Held(f"dummy gradient of {weight.name}", weight.shape, BF16.bits) for weight in matrices)
            kinds.setdefault(tuple(value_of(weight.size) for weight in matrices), made)
    held = tuple(each for made in kinds.values() for each in made)
    return Component("workspaces", "workspaces", Cost(held=held))


def layout_of(plan: Training) -> Layout:
    """Its first stage."""
    return Layout(plan.tensor_parallel, plan.sequence_parallel, plan.pipeline_parallel, plan.virtual_pipeline)


def shared_out(run: Workload, plan: Training) -> Workload:
    """Workload of one GPU: its share of each sequence. Keys that go around the ring are not in it."""
    at = Layout(cp=plan.context_parallel)
    return run.replaced(seq_len=at.share_of_sequence(run.seq_len))


def check_steps(plan: Training) -> None:
    """Raise InvalidModel for sequences that nobody shared, or chunks in whose order the micro-batches do not come.

    One micro-batch is the default, and stands for any number that fills the pipeline.
    """
    if value_of(plan.context_parallel) != 1 and plan.of_2022:
        raise InvalidModel("--cp with --backend megatron-2022, which did not have it", "take --backend megatron")
    if plan.grad_accum != 1:
        at = layout_of(plan)
        schedule_of(at.vpp).check(at.pp, plan.grad_accum, at.vpp)


def held_on_device(piece: Module, run: Workload, plan: Training) -> Component:
    """Weights and operations of a device, with adapters beside them, and with what is not trained frozen."""
    return trained(counted(piece, run)._replace(kind="model"), plan)


def saved_on_device(
    piece: Module, tree: Component, run: Workload, at: Layout, code: str = "megatron-2022"
) -> Component:
    """Tensors that one device saves for backward, of all micro-batches that are in flight. Raises InvalidModel.

    With tensor parallelism a layer saves these bytes for a micro-batch by the ``code`` of 2022 (the paper's table 2):

    ====================================  ======================================
    tensor parallel                       ``sbh(10 + 24/t + 5as/ht)``
    and sequence parallel                 ``sbh(34/t + 5as/ht)``
    selective recomputation               these without ``5as/ht``
    full recomputation                    ``2sbh``, and ``2sbh/t``
    ====================================  ======================================
    """
    one_of("recompute", run.recompute, RECOMPUTED)
    check_least("batch", run.batch_size, 1)
    check_least("sequence length", run.seq_len, 1)
    check_saved(piece)
    stack = next((each.layers.name for each in piece.all_of() if isinstance(each, PipelineStage)), "")
    if at.sequence_parallel:
        check_even("sequence length", run.seq_len, "tensor", at.tp)
    kinds = {node.component.name: node.component.kind for node in tree.walk()}
    return in_flight(activations(kept_on_device(piece, tree, run, code), kinds), stack, at)


def kept_on_device(piece: Module, tree: Component, run: Workload, code: str = "megatron-2022") -> list[Kept]:
    """Tensors saved for backward at the end of forward, each kind of layer once; ``tree`` says what is trained."""
    kernels = backend(code)()
    assert isinstance(kernels, Megatron)
    module = with_dropout(piece) if kernels.drops_by_options else piece
    running = ModuleProgram(module, run, NUMERICS, kernels, every_layer=False)
    running(tree)
    return list(running.tape.kept.values())


def chunks_in_flight(at: Layout) -> Num:
    """Number of micro-batches for which a chunk of layers has saved tensors at once.

    1F1B: ``p − S`` on stage S (Korthikanti et al. 2022, appendix C; section 4.2.3 has p on the first). Interleaved:
    ``pm + p − 1 − 2S`` with m chunks a stage; on the first, times L/pm layers, it is the paper's ``L(1 + (p − 1)/pm)``.
    A later stage runs two chunks less ahead than the one before it (Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``: ``2(p − S − 1) + (m − 1)p`` chunks, and the one that runs).

    >>> chunks_in_flight(Layout(pp=8)), chunks_in_flight(Layout(pp=8, vpp=3)), chunks_in_flight(Layout(pp=8, stage=7))
    (8, 31, 1)
    """
    saved = schedule_of(at.vpp).saved
    assert saved is not None
    chunks: Num = saved(at.stage, at.pp, at.vpp)
    return chunks


def in_flight(saved: Component, stack: str, at: Layout) -> Component:
    """Saved tensors of one micro-batch on a stage, times the micro-batches in flight.

    The layers of this ``stack`` in chunks; the embedding of the first stage for p micro-batches, interleaved or not,
    and what is behind the layers of the last for one (section 4.3).
    """
    parts = tuple(_part(part, stack, at) for part in saved.parts)
    return saved._replace(parts=parts)


def _part(part: Component, stack: str, at: Layout) -> Component:
    if _of_stack(part, stack):
        return _in_chunks(part, at)
    if any(_of_stack(node.component, stack) for node in part.walk()):
        return in_flight(part, stack, at)
    return part._replace(copies=part.copies * (at.pp - at.stage))


def _of_stack(part: Component, stack: str) -> bool:
    """Return whether these are layers of the stack, all of them or some."""
    return part.name.partition("[")[0] == stack


def _in_chunks(layers: Component, at: Layout) -> Component:
    check_even("layers that are alike", layers.copies, "interleave", at.vpp)
    of_a_chunk = layers._replace(copies=divide(layers.copies, at.vpp))
    return Component("chunk", "memory", parts=(of_a_chunk,), copies=chunks_in_flight(at))
