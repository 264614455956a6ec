"""A device of Megatron-LM in training: its share of the states, and of the activations that a paper lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.held.training import megatron
from tfcalc.held.training.megatron_sizes import Placement as Devices
from tfcalc.held.training.megatron_sizes import check, remembered, sizes_of
from tfcalc.held.training.parallel import on_device
from tfcalc.held.training.peak import STEP, highest, phases
from tfcalc.held.training.precisions import precision
from tfcalc.questions.alive import alive
from tfcalc.questions.standing import TrainingStep, buffers_of, bytes_in, standing_of, states_of
from tfcalc.questions.training_plan import gradients_stay, placement_of, trained
from tfcalc.symbols import remembering
from tfcalc.tape.ledger import Moment

if TYPE_CHECKING:
    from tfcalc.held.plans import Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload


def on_megatron(model: Model, run: Workload, plan: Training) -> TrainingStep:
    """A device of Megatron-LM: its share of the states, and of the activations that the paper lists.

    The paper knows no temporary, so none is counted. The peak is at the start of backward.
    """
    sizes = sizes_of(model, run.seq_len)
    devices = Devices(plan.tensor_parallel, plan.sequence_parallel, plan.pipeline_parallel, plan.virtual_pipeline)
    check(sizes, run.batch_size, run.seq_len, devices, splits_sequence=plan.sequence_parallel)
    model_, run_, plan_ = remembering(model), remembering(run), remembering(plan)
    at = Devices(plan_.tensor_parallel, plan.sequence_parallel, plan_.pipeline_parallel, plan_.virtual_pipeline)
    saved = megatron.activations(
        remembered(sizes),
        batch=run_.batch_size,
        seq=run_.seq_len,
        tensor=at.tensor,
        sequence_parallel=plan.sequence_parallel,
        recompute=run.recompute,
        pipeline=at.pipeline,
        interleave=at.interleave,
        dropout=run.drops,
    )
    by, placement = precision(plan.precision), placement_of(plan)
    sized = on_device(trained(model.tree(run), plan), devices)
    tree = on_device(trained(model_.tree(run_), plan), at)
    states, buffers = states_of(tree, sized, plan), buffers_of(tree, run_, by)
    moment = Moment()
    moment.total = moment.saved = bytes_in(saved)
    scratch = 0 if placement.offload != "none" else bytes_in(states.step)
    stays = gradients_stay(by, placement) or plan.grad_accum != 1
    gradients, gathered = bytes_in(states.device.gradients), bytes_in(states.gathered)
    standing = standing_of(states, buffers)
    found = phases(standing, gradients, {"backward": moment}, gathered, scratch, there=stays)
    peak = highest(found)
    passing = states.step if peak.name == STEP else Component("temporary", "temporary")
    return TrainingStep(alive(states, saved, buffers, passing, peak), found, peak, saved, states, buffers, passing)
