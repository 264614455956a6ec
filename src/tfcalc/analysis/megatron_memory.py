"""A device of Megatron-LM in training: its share of the states, and of what backward needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.alive import alive
from tfcalc.analysis.standing import TrainingStep, buffers_of, bytes_in, standing_of, states_of
from tfcalc.analysis.training_plan import gradients_stay, placement_of, trained
from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel, one_of
from tfcalc.nn.counted import counted
from tfcalc.nn.module import Module
from tfcalc.placed.layout import Layout, check_even, check_least
from tfcalc.placed.modules import FewerGroups, PipelineStage
from tfcalc.placed.rules import on_device
from tfcalc.plans import TRAINER
from tfcalc.symbols import remembering
from tfcalc.tape.memory_tracker import MemorySnapshot
from tfcalc.training.megatron import in_flight, kept_on_device
from tfcalc.training.peak import STEP, highest, phases
from tfcalc.training.precisions import precision
from tfcalc.training.states import Overheads
from tfcalc.training.step import activations

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.workload import Workload

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
    saved = saved_on_device(piece, tree, run_, layout_of(plan_))
    by, placement = precision(plan.precision), placement_of(plan)
    states, beside = states_of(tree, sized, plan), Overheads(buffers_of(tree, run_, by))
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


def layout_of(plan: Training) -> Layout:
    """Its first stage."""
    return Layout(plan.tensor_parallel, plan.sequence_parallel, plan.pipeline_parallel, plan.virtual_pipeline)


def held_on_device(piece: Module, run: Workload, plan: Training) -> Component:
    """What a device holds and does, with adapters beside it, and with what is not trained frozen."""
    return trained(counted(piece, run)._replace(kind="model"), plan)


def saved_on_device(piece: Module, tree: Component, run: Workload, at: Layout) -> Component:
    """What one device holds for backward, of all micro-batches that are in flight. Raises InvalidModel.

    With tensor parallelism a layer keeps these bytes for a micro-batch (the paper's table 2):

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
    stack = ""
    for each in piece.all_of():
        if isinstance(each, PipelineStage):
            stack = each.layers.name
        if isinstance(each, FewerGroups):  # what it keeps of all devices' heads is not known
            check_even("key and value heads", each.groups, "tensor", each.devices)
    if at.sequence_parallel:
        check_even("sequence length", run.seq_len, "tensor", at.tp)
    kinds = {node.component.name: node.component.kind for node in tree.walk()}
    return in_flight(activations(kept_on_device(piece, tree, run), kinds), stack, at)
