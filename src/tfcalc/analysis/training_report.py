"""The memory of a training step as an answer: what is alive at its peak, the phases, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfcalc.analysis.alive import LETTERS
from tfcalc.analysis.at_a_glance import of_training, training_summary
from tfcalc.analysis.common import asked_run
from tfcalc.analysis.effects import MEGATRON as MEGATRON_RUN
from tfcalc.analysis.effects import TRAINING, refuse_idle, refuse_idle_source
from tfcalc.analysis.memory_breakdown import memory_breakdown
from tfcalc.analysis.peaks import peaks_of
from tfcalc.analysis.standing import Step, bytes_in
from tfcalc.analysis.stated import recomputed
from tfcalc.analysis.training_memory import training_step
from tfcalc.analysis.training_numbers import training_numbers
from tfcalc.analysis.training_plan import MEGATRON, known_error, loops, of_text_alone, placement_of, trained_in
from tfcalc.backends import backend
from tfcalc.conventions import Conventions
from tfcalc.core.measure import params
from tfcalc.defaults import assumed_dtype, resolve_training
from tfcalc.execution.programs import backend_for
from tfcalc.footprint.training.optimizers import notes_on_optimizer, optimizer
from tfcalc.footprint.training.peak import Phase
from tfcalc.footprint.training.precisions import precision
from tfcalc.number_formats import NUMBERS
from tfcalc.report import Footer, Outline, Report, exact
from tfcalc.report.later import Later, each_of
from tfcalc.symbols import legend
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.footprint.plans import Training
    from tfcalc.model import Model
    from tfcalc.workload import Workload

PHASES = {"forward": "forward", "loss": "the loss", "backward": "backward", "step": "the optimizer step"}
PURE = ("bf16", "fp16")
"""Precisions whose weights, gradients and moments have 16 bits alone: 8 bytes a parameter with AdamW."""
JSON_PHASE = {"loss": "forward"}
"""The JSON's ``peak_phase`` is forward, backward or step; the loss is the end of forward."""

LOSSES = {
    "logits": "loss of all logits at once",
    "chunked": "loss of 8 chunks of logits",
    "linear": "logits and loss in 8 chunks",
    "checkpointed": "logits and loss of 256 tokens at a time",
    "fused": "fused loss",
}
"""By the words of ``--loss``."""
DEVICES = {
    "recorded": "saved tensors as in PyTorch 2.13 with CUDA's kernels on CPU tensors (--device recorded)",
    "cuda": "saved tensors as in PyTorch 2.13 on CUDA",
}
DROPOUT_MASKS = (
    "dropout masks: 1 byte per element, as PyTorch saves them on CUDA (on a CPU: a number per element in the format of "
    "the activations, 4 bytes in fp32)"
)
WORKSPACES = (
    "cuBLAS's workspaces: PyTorch allocates one for forward and one for backward, of 8,519,680 bytes each, and of 32 "
    "MiB on Hopper and Blackwell GPUs (as --gpu says)"
)
IN_BACKWARD = (
    "each parameter is stepped in backward as soon as its gradient is complete, and the gradient is freed: there is no "
    "norm of all gradients to clip by, and no step behind backward"
)
OFFLOADED = (
    "what checkpointed layers read is copied to the host's memory, and back when backward runs them again, as by "
    "transformers' activation_checkpointing_enable(offload=True); torchtune and TRL copy on a stream of their own, "
    "and keep up to five tensors longer"
)
LONGEST = 150_000
"""Allocations and frees of the longest step that is simulated: a second. Those of 10,000 layers would take a minute."""
OTHER_PHASES = "Other phases: "
CONTEXT = "CUDA context"
FRAGMENTS = "fragmentation (allow 5-15 %)"
"""What a card shows beyond the peak: where it is simulated, it stands in a line of its own."""
NOT_COUNTED = (
    "CUDA context (0.3 to 0.6 GB), workspaces but cuBLAS's, the allocator's rounding and fragmentation, communication "
    "buffers"
)
LOOPS = {
    "trainer": "loop trainer: the logits are freed before backward, as by transformers' Trainer; by out = "
    "model(**batch); out.loss.backward() {} of them would not be (--loop tutorial)",
    "tutorial": "loop tutorial: out = model(**batch); out.loss.backward() frees {} of logits only when the next step's "
    "take their place, after its forward; a cache of keys and values, as use_cache=True makes one, would live as long, "
    "and is not counted",
}


def training_memory(
    model: Model, workload: Workload, plan: Training, conventions: Conventions, *, depth: int | None = None
) -> Report:
    """The peak of a training step: the largest amount of memory live at once. Raises InvalidModel, UsageError."""
    workload, plan = resolved(model, workload, plan)
    step = training_step(model, workload, plan)
    told, terms = _outline(model, workload, plan, conventions, step), dict(each_of(step, TOTALS))
    whole, used = memory_breakdown(step.alive, depth)
    letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
    return Report(
        command="memory",
        heading=model.summary,
        title=f"peak, in {PHASES[step.peak.name]}",
        unit="bytes",
        answer=told.answer,
        totals=terms,
        model=model.described(),
        conventions=told.conventions,
        whole=whole,
        depth=depth,
        legend=legend(used, model, workload, plan) | letters,
        notes=told.notes,
        more=told.more,
        footer=told.footer,
        summary=training_summary(
            whole,
            terms,
            exact(model.tree(workload).total(params)),
            told.subtitle,
            conventions.units,
            stepped=plan.optimizer_in_backward,
        ),
    )


def training_outline(model: Model, workload: Workload, plan: Training, conventions: Conventions) -> Outline:
    """The same without what the peak is made of: a part of the time. Raises InvalidModel, UsageError."""
    workload, plan = resolved(model, workload, plan)
    return _outline(model, workload, plan, conventions, training_numbers(model, workload, plan, noting=True))


def _outline(model: Model, workload: Workload, plan: Training, conventions: Conventions, step: Step) -> Outline:
    peak = step.peak.total
    return Outline(
        subtitle=of_training(model, workload, plan),
        answer=peak,
        conventions=in_full(workload, plan, conventions),
        notes=(
            _other_phases(step, conventions.units),
            *_on_host(step, plan, conventions.units),
            *_not_simulated(model, workload, plan),
            *model.remarks(workload),
            *_caveats(model, plan),
        ),
        more=Later(
            {"timeline": [described(phase) for phase in step.phases]},
            lambda: on_card(model, workload, plan, peak),
        ),
        footer=Footer(
            assumes=(*in_short(model, workload, plan), *assumed_dtype(model, plan.precision)),
            not_counted=", ".join((CONTEXT, *_between_gpus(plan), FRAGMENTS)),
            see_also=("--gpu h100 (does it fit?)", "--timeline", "--formulas", "--assumptions"),
            assumptions=(*notes(workload, plan), *of_loop(step, plan, conventions.units)),
        ),
    )


def resolved(model: Model, workload: Workload, plan: Training) -> tuple[Workload, Training]:
    """What is run and how, with all that was left open. Raises InvalidModel; UsageError for what has no effect."""
    workload = asked_run(model, workload)
    model.check(workload)
    refuse_idle(workload, MEGATRON_RUN if plan.backend == MEGATRON else TRAINING, "on the memory of training")
    refuse_idle_source(model, workload)
    return resolve_training(model, workload, plan)


def _between_gpus(plan: Training) -> tuple[str, ...]:
    """What GPUs exchange gradients and weights in, as far as it is not counted."""
    if plan.gpus == 1:
        return ()
    counted = plan.zero == "0" or placement_of(plan).by_units
    return ("NCCL's buffers" if counted else "communication buffers of ZeRO",)


def on_card(model: Model, run: Workload, plan: Training, allocated: int) -> dict[str, int]:
    """What a card shows of it, where its allocations are known in their order."""
    if plan.backend == MEGATRON or any(_not_simulated(model, run, plan)):
        return {}
    from tfcalc.analysis.card import entries, of_step  # a simulation, for those who ask for the JSON or the phases

    return entries(of_step(peaks_of(model, run, plan), run, plan, allocated))


def _not_simulated(model: Model, run: Workload, plan: Training) -> Iterator[str]:
    """What takes the caching allocator's simulation too long."""
    if plan.backend != MEGATRON and (events := peaks_of(model, run, plan).noted_of(run, plan).length) > LONGEST:
        yield (f"Reserved: not simulated, as a step allocates and frees {events:,} times (at most {LONGEST:,} are)")


def _other_phases(step: Step, units: str) -> str:
    """``Other phases: forward 70.5 GiB, optimizer step 74.8 GiB``."""
    others = (phase for phase in step.phases if phase.name != step.peak.name)
    return OTHER_PHASES + ", ".join(
        f"{PHASES[phase.name].removeprefix('the ')} {short_bytes(phase.total, units)}" for phase in others
    )


def _on_host(step: Step, plan: Training, units: str) -> Iterator[str]:
    """``Host memory: 4.00 GiB of activations``; what is paged is there only if the GPU has no room."""
    held = {STATES.get(name, name): bytes_in(state) for name, state in step.placed.host._asdict().items()}
    held["activations"] = bytes_in(step.saved_on_host)
    paged = held.pop(STATES["optimizer"]) if optimizer(plan.optimizer).paged else 0
    if told := [f"{short_bytes(size, units)} of {name}" for name, size in held.items() if size]:
        yield f"Host memory: {', '.join(told)}"
    if paged:
        yield f"Unified memory: {short_bytes(paged, units)} of optimizer states, on the GPU while there is room"


STATES = {"master": "master weights", "optimizer": "optimizer states"}
"""What states are called, where it is not the name of their field."""


def in_short(model: Model, run: Workload, plan: Training) -> tuple[str, ...]:
    """What the code is, in a line."""
    again = "no gradient checkpointing" if run.recompute == "none" else f"gradient checkpointing {run.recompute}"
    again += ", offloaded" if plan.offload_activations else ""
    master = ("no fp32 master weights",) if plan.precision in PURE and plan.lora is None else ()
    if plan.backend == MEGATRON:
        return (backend(MEGATRON).label, again)
    clipped = ("no gradient clipping",) if plan.optimizer_in_backward else ()

    compiled = ("compiled layers and loss",) if plan.compile else ()
    loss = (LOSSES[plan.loss],) if plan.loss != "auto" else ()
    return (
        *([f"preset {plan.preset}"] if plan.preset else []),
        backend_for(model, plan.backend).label,
        *compiled,
        *loss,
        "CUDA" if plan.device == "cuda" else "CPU tensors",
        f"{run.kernel} attention",
        again,
        *master,
        *clipped,
        *adapters_in_short(plan),
    )


def adapters_in_short(plan: Training) -> tuple[str, ...]:
    """``fp32 adapters under autocast``: as peft and transformers' Trainer train them."""
    if plan.lora is None:
        return ()
    return (f"{plan.lora_dtype} adapters{' under autocast' * precision(plan.precision).autocast}",)


def _caveats(model: Model, plan: Training) -> Iterator[str]:
    """How far the family's activations were from PyTorch's, where they were not equal; what makes none."""
    error = 0.0 if plan.backend == MEGATRON else known_error(model)
    if error:
        yield f"Accuracy: activations of this class are within {abs(error):.2%} of PyTorch's (random small models)"
    if plan.tensor_parallel != 1 and plan.backend != MEGATRON:
        yield "Accuracy: an estimate; layers that GPUs share under FSDP were compared with DTensor's of one small model"
    if loops(model):
        yield "Accuracy: peaks of layers that loop over time came out up to 11 % below PyTorch's (random small models)"
    yield from of_text_alone(model)


TOTALS: Mapping[str, Callable[[Step], int | str]] = {
    "total_bytes": lambda step: step.peak.total,
    "peak_bytes": lambda step: step.peak.total,
    "peak_phase": lambda step: JSON_PHASE.get(step.peak.name, step.peak.name),
    "weights_bytes": lambda step: bytes_in(step.placed.device.weights),
    "master_weights_bytes": lambda step: bytes_in(step.placed.device.master),
    "gradients_bytes": lambda step: bytes_in(step.placed.device.gradients),
    "optimizer_bytes": lambda step: bytes_in(step.placed.device.optimizer),
    "activations_bytes": lambda step: bytes_in(step.saved),
    "kv_cache_bytes": lambda _: 0,
    "buffers_bytes": lambda step: bytes_in(step.beside.buffers),
    "workspaces_bytes": lambda step: bytes_in(step.beside.workspaces),
    "outputs_bytes": lambda step: bytes_in(step.beside.outputs),
    "gathered_bytes": lambda step: step.peak.gathered,
    "communication_bytes": lambda step: bytes_in(step.placed.communication),
    "temporary_bytes": lambda step: step.peak.temporary,
    "host_bytes": lambda step: sum(map(bytes_in, (*step.placed.host, step.saved_on_host))),
}
"""The terms of a step, each by itself; ``total_bytes`` is the peak, as they are never all live at once."""


def described(phase: Phase) -> dict[str, object]:
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
        return "attention scores saved, as in the paper (unless --checkpointing selective)"
    return f"attention kernel {run.kernel}"


def stated(run: Workload, plan: Training) -> dict[str, object]:
    """What the number was made by, for programs."""
    by = precision(plan.precision)
    return {
        "phase": "train",
        "batch_size": run.batch_size,
        "seq_len": run.target.length,
        "source_len": run.source.seen,
        "attention_kernel": "none: attention scores saved" if plan.backend == MEGATRON else run.kernel,
        "recomputation": run.recompute,
        "dropout": run.drops,
        **plan.described(),
        "bytes_per_parameter": by.in_words,
        "total": "the peak: the largest amount of memory live at once, not the sum of the terms",
        "micro_batches": plan.grad_accum,
    }


def in_full(run: Workload, plan: Training, conventions: Conventions) -> dict[str, object]:
    """The same with the units, and with what is not counted."""
    return {**stated(run, plan), "units": conventions.units, "not_counted": NOT_COUNTED}


def of_loop(step: Step, plan: Training, units: str) -> Iterator[str]:
    """Who holds the logits, and how much that is."""
    if step.logits:
        yield LOOPS[plan.loop].format(short_bytes(step.logits, units))


def _preset(name: str) -> Iterator[str]:
    """What a preset stands for, from where, and what of it is not modelled."""
    from tfcalc.footprint.training_presets import training_preset  # few ask for one

    found = training_preset(name)
    yield f"preset {name} stands for {found.flags}, where nothing else was given"
    yield f"source of the preset: {found.source} at {found.revision}"
    yield f"not modelled of the preset: {'; '.join(found.not_modelled)}"


def notes(run: Workload, plan: Training) -> Iterator[str]:
    """All that the answer rests on, in words."""
    by = precision(plan.precision)
    dropout = "with dropout where the config has some" if run.drops else "no dropout"
    again = "no gradient checkpointing" if run.recompute == "none" else f"recomputed in backward: {recomputed(run)}"
    yield f"precision {by.name}: {by.in_words}; optimizer {plan.optimizer}; {_kernel(run, plan)}; {dropout}; {again}"
    if plan.preset:
        yield from _preset(plan.preset)
    if plan.lora is not None:
        bits = trained_in(plan)
        dropped = f", dropout {plan.lora_dropout}" if plan.lora_dropout else ""
        yield f"adapters in {plan.lora_dtype} ({bits.in_words}), as peft runs them{dropped}; all else is frozen"
    if plan.backend != MEGATRON:
        yield DEVICES[plan.device]
    if plan.device == "cuda" and plan.backend != MEGATRON:
        yield WORKSPACES
    if run.drops and plan.backend != MEGATRON:
        yield DROPOUT_MASKS
    if plan.gpus != 1 or plan.zero != "0":
        yield f"one of {plan.gpus:,} GPUs, ZeRO stage {plan.zero}, tensors split {plan.layout}, offload {plan.offload}"
    if placement_of(plan).by_units:
        computed, kept = (NUMBERS[each].name for each in (by.gathered, by.reduced))
        yield (
            f"FSDP: each layer's weights are gathered in {computed} as it runs, its gradients reduced in {kept}; with "
            "the buffers of both, the next layer's weights in backward, and all of what is in no layer"
        )
    if plan.gpus != 1 and plan.gradient_as_bucket_view:
        yield "DDP buckets: gradients are views of them, and are never freed (gradient_as_bucket_view=True)"
    elif plan.gpus != 1 and plan.zero == "0" and plan.backend != MEGATRON:
        yield "DDP buckets: as large as the gradients (DistributedDataParallel with gradient_as_bucket_view=False)"
    if plan.optimizer in ("adam", "adamw"):
        yield f"{plan.optimizer} is PyTorch's foreach implementation: its step copies what it updates"
    if plan.optimizer_in_backward:
        yield IN_BACKWARD
    if plan.offload_activations:
        yield OFFLOADED
    yield from notes_on_optimizer(plan.optimizer)
    yield "peak = the largest amount of memory live at once (--timeline shows each phase)"
    yield f"not counted: {NOT_COUNTED}"
