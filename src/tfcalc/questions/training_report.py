"""The memory of a training step as an answer: what is alive at its peak, the phases, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfcalc.conventions import Conventions
from tfcalc.core.measure import bytes_held
from tfcalc.core.traced import value_of
from tfcalc.defaults import resolve_training
from tfcalc.held.numbers import of_formulas, of_numbers
from tfcalc.held.training.peak import Phase
from tfcalc.held.training.precisions import precision
from tfcalc.questions.alive import LETTERS
from tfcalc.questions.common import asked_run
from tfcalc.questions.effects import MEGATRON as MEGATRON_RUN
from tfcalc.questions.effects import TRAINING, refuse_idle, refuse_idle_source
from tfcalc.questions.standing import TrainingStep
from tfcalc.questions.stated import recomputed
from tfcalc.questions.training_memory import training_step
from tfcalc.questions.training_plan import MEGATRON, known_error, of_text_alone
from tfcalc.report import Report, breakdown
from tfcalc.symbols import legend

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.held.plans import Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

PHASES = {
    "forward": "in forward",
    "loss": "in the loss",
    "backward": "in backward",
    "step": "in the optimizer's step",
}
JSON_PHASE = {"loss": "forward"}
"""The JSON's ``peak_phase`` is forward, backward or step; the loss is the end of forward."""
DEVICES = {
    "recorded": "kept as PyTorch keeps it on fake CPU tensors (--device cuda: fp32 statistics of 16-bit LayerNorms)",
    "cuda": "kept as CUDA keeps it",
}
NOT_COUNTED = (
    "CUDA context (0.3 to 0.6 GB), workspaces of the kernels, the allocator's rounding and fragmentation, "
    "communication buffers"
)


def training_memory(
    model: Model, run: Workload, plan: Training, conventions: Conventions, *, depth: int | None = None
) -> Report:
    """The most that is alive together in a training step. Raises InvalidModel."""
    run = asked_run(model, run)
    model.check(run)
    refuse_idle(run, MEGATRON_RUN if plan.backend == MEGATRON else TRAINING, "on the memory of training")
    refuse_idle_source(model, run)
    run, plan = resolve_training(model, run, plan)
    step = training_step(model, run, plan)
    alive = step.alive
    whole = breakdown(
        of_numbers(alive).root(),
        of_formulas(alive).root(),
        bytes_held,
        {"bytes": bytes_held},
        inside_blocks=depth is not None,
    )
    used = frozenset().union(*(part.formula.free_symbols for part in whole.walk()))
    letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
    return Report(
        command="memory",
        heading=model.summary,
        title=f"bytes at the peak, {PHASES[step.peak.name]}",
        unit="bytes",
        answer=step.peak.total,
        totals=totals(step),
        model=model.described(),
        conventions={**stated(run, plan), "units": conventions.units, "not_counted": NOT_COUNTED},
        whole=whole,
        depth=depth,
        legend=legend(used, model, run, plan) | letters,
        notes=(*model.remarks(run), *_doubts(model, run, plan), *notes(run, plan)),
        more={"timeline": [described(phase) for phase in step.phases]},
    )


def _doubts(model: Model, run: Workload, plan: Training) -> Iterator[str]:
    """How far the family's activations were from PyTorch's, where they were not equal; what makes none."""
    error = 0.0 if plan.backend == MEGATRON else known_error(model)
    if error:
        yield f"activations of this family were {error:+.2%} off PyTorch's on random small models, at worst"
    yield from of_text_alone(model, run)


def totals(step: TrainingStep) -> dict[str, int | str]:
    """The terms, each by itself; ``total_bytes`` is the peak, for they are never all alive together."""
    states = step.placed.device
    weights, gradients, master, optimizer = (_bytes(state) for state in states)
    return {
        "total_bytes": step.peak.total,
        "peak_bytes": step.peak.total,
        "peak_phase": JSON_PHASE.get(step.peak.name, step.peak.name),
        "weights_bytes": weights,
        "master_weights_bytes": master,
        "gradients_bytes": gradients,
        "optimizer_bytes": optimizer,
        "activations_bytes": _bytes(step.saved),
        "kv_cache_bytes": 0,
        "buffers_bytes": _bytes(step.buffers),
        "gathered_bytes": step.peak.gathered,
        "temporary_bytes": step.peak.temporary,
        "host_bytes": sum(_bytes(state) for state in step.placed.host),
    }


def _bytes(tree: Component) -> int:
    return value_of(tree.total(bytes_held))


def described(phase: Phase) -> dict[str, Any]:
    """One phase as it stands in the JSON."""
    return {
        "phase": phase.name,
        "peak_bytes": phase.total,
        "states_bytes": phase.standing,
        "gradients_bytes": phase.gradients,
        "activations_bytes": phase.activations,
        "gathered_bytes": phase.gathered,
        "temporary_bytes": phase.temporary,
    }


def _kernel(run: Workload, plan: Training) -> str:
    if plan.backend == MEGATRON:
        return "attention's scores kept, as the paper has them (--recompute selective: not)"
    return f"attention kernel {run.kernel}"


def stated(run: Workload, plan: Training) -> dict[str, Any]:
    """What the number was made by, for programs."""
    by = precision(plan.precision)
    return {
        "phase": "train",
        "batch_size": run.batch_size,
        "seq_len": run.target.length,
        "source_len": run.source.seen,
        "attention_kernel": "none: scores kept" if plan.backend == MEGATRON else run.kernel,
        "recomputation": run.recompute,
        "dropout": run.drops,
        **plan.described(),
        "bytes_per_parameter": by.in_words,
        "total": "the most that is alive together, not the sum of the terms",
        "micro_batches": plan.grad_accum,
    }


def notes(run: Workload, plan: Training) -> Iterator[str]:
    """The same in words."""
    by = precision(plan.precision)
    dropout = "with dropout" if run.drops else "no dropout"
    again = "" if run.recompute == "none" else f"; recomputed: {recomputed(run)}"
    yield (
        f"{run.batch_size:,} x {run.seq_len:,} tokens; recipe {by.name}: {by.in_words}; optimizer {plan.optimizer}; "
        f"{_kernel(run, plan)}; {dropout}{again}"
    )
    if plan.backend != MEGATRON:
        yield DEVICES[plan.device]
    if plan.gpus != 1 or plan.zero != "0":
        yield f"one of {plan.gpus:,} devices, ZeRO stage {plan.zero} ({plan.layout}), offload {plan.offload}"
    if plan.optimizer in ("adam", "adamw"):
        yield f"{plan.optimizer} is PyTorch's foreach: its step copies what it updates; adamw-fused does not"
    yield "the most that is alive together: each phase at its own highest moment (--timeline shows them)"
    yield f"not counted: {NOT_COUNTED}"
