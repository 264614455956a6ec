"""Device of Megatron-LM in training: its share of the states, what backward needs, and micro-batches in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.backends import backend
from tfcalc.backends.megatron import NUMERICS, Megatron
from tfcalc.backends.program import ModuleProgram
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.number import Num, divide
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, one_of
from tfcalc.model import remembering
from tfcalc.nn.module import Module, counted
from tfcalc.number_formats import BF16
from tfcalc.placed.dropout import with_dropout
from tfcalc.placed.layout import Layout, check_even, check_least
from tfcalc.placed.modules import PipelineStage
from tfcalc.placed.rules import check_saved, on_device
from tfcalc.placed.schedules import schedule_of
from tfcalc.plans import TRAINER
from tfcalc.tape.memory_tracker import Kept, MemorySnapshot
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
)
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training


RECOMPUTED = ("none", "selective", "full")


def on_megatron(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """The first stage's device, which holds most.

    Korthikanti et al. 2022 (arXiv 2205.05198) know no temporary, so none is counted. The peak is at the start of
    backward.
    """
    if plan.loop != TRAINER:
        raise InvalidModel(f"--loop {plan.loop} has no effect with --backend {plan.backend}", "leave it out")
    model_, run_, plan_ = remembering(model), remembering(run), remembering(plan)
    sized = held_on_device(on_device(model.module(), layout_of(plan)), run, plan)
    piece = on_device(model_.module(), layout_of(plan_))
    tree = held_on_device(piece, run_, plan)
    saved = saved_on_device(piece, tree, run_, layout_of(plan_), plan.backend)
    by, placement = precision(plan.precision), placement_of(plan)
    states = states_of(tree, sized, plan)
    beside = Overheads(buffers_of(tree, run_, by), NOTHING if plan.of_2022 else dummy_gradients(tree))
    moment = MemorySnapshot()
    moment.total = moment.saved = bytes_in(saved)
    scratch = 0 if placement.offload != "none" else bytes_in(states.step)
    stays = gradients_stay(by, placement) or plan.grad_accum != 1
    gradients, gathered = bytes_in(states.device.gradients), bytes_in(states.gathered)
    standing = standing_of(states, beside)
    found = phases(standing, gradients, {"backward": moment}, gathered, scratch, gradients_resident=stays)
    peak = highest(found)
    passing = states.step if peak.name == STEP else Component("temporary", "temporary")
    live = alive(states, states.device.gradients, saved, beside, passing, peak)
    return TrainingStep(live, found, peak, saved, states, beside, passing)


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
