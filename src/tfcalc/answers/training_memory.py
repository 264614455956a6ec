"""The memory of a training step as an answer: what is live at its peak, the phases, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.common import MEGATRON as MEGATRON_RUN
from tfcalc.analysis.common import TRAINING, refuse_idle, refuse_idle_source
from tfcalc.answers.conventions_text import experts_without_adapters, recomputed
from tfcalc.answers.memory_base import (
    OF_BUFFERS,
    PARTS,
    Memory,
    MemoryTerm,
    PeakMemory,
    card_assumptions,
    card_lines,
    entries_in,
    global_batch,
    memory_breakdown,
    of_text_alone,
    of_training,
    tokens_of_step,
    training_summary,
)
from tfcalc.backends import SAVED, backend
from tfcalc.backends.program import backend_for
from tfcalc.backends.sdpa import METAL
from tfcalc.configs.published import HFModel
from tfcalc.core.measure import params
from tfcalc.defaults import assumed_dtype, in_llama_cpp
from tfcalc.hardware import CONTEXT as CUDA_CONTEXT
from tfcalc.model import asked_run, legend
from tfcalc.number_formats import NUMBERS
from tfcalc.plans import BITSANDBYTES, BITSANDBYTES_OLD, SFT, training_preset
from tfcalc.report import Entry, Footer, Summary, exact
from tfcalc.report.declared import FIRST, Key, Record, Told, When, boolean, integer, records, text
from tfcalc.report.opening import Constant, Rule, Stated, found, total
from tfcalc.report.report import charts
from tfcalc.report.sheet import Bytes, Column, Sheet, of
from tfcalc.training.adapters import drops, listed
from tfcalc.training.methods import OF_METHODS
from tfcalc.training.optimizers import bytes_of_a_number, notes_on_optimizer, optimizer, states_in_words
from tfcalc.training.peaks import peaks_of, training_numbers, training_step
from tfcalc.training.plan_checks import OF_BITSANDBYTES, is_upper_bound, known_error, placement_of, trained_in
from tfcalc.training.precisions import PRODUCTS_ALONE, Precision, precision
from tfcalc.training.sharding import FSDP1
from tfcalc.training.step_terms import LETTERS, Step, TrainingStep, bytes_in
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.report.chart import Bars
    from tfcalc.training.measured import OnCard
    from tfcalc.training.peaks import Peaks
    from tfcalc.workload import Conventions, Workload


KEYS = ("states_bytes", "gradients_bytes", "activations_bytes", "gathered_bytes", "temporary_bytes")
HEADINGS = ("states", "gradients", "activations", "gathered", "temporary")
MARKS = "█▓▒≡░"
"""What each of them is drawn with."""
IN_8_BITS = (
    "fp8: products alone, as torchao's float8 does it: weights, gradients and what is saved stay in bf16. Not counted: "
    "8-bit copies within a product; Transformer Engine, which saves inputs in 8 bits"
)
"""What a precision of 8 bits is taken for.

Source: torchao's ``matmul_with_hp_or_float8_args``.
"""
APART = ("--timeline", "--formulas", "--gpu")
"""What it does not go with."""
WIDE = 30
"""Characters of the peak."""


def timeline_sheet(memory: TrainingMemory, sheet: Sheet) -> Sheet:
    """A row for each phase, with its memory as a stacked bar; all else is as in the ``sheet`` of terms or a verdict."""
    phases, on_card = memory.timeline, None if memory.judge else memory.on_card
    footer = memory.footer.counting(CONTEXT, FRAGMENTS) if on_card else memory.footer
    shown = [place for place, key in enumerate(KEYS) if any(getattr(phase, key) for phase in phases)]
    marks = ", ".join(f"{MARKS[place]} {HEADINGS[place]}" for place in shown)
    told = f"{marks}; states: weights, optimizer, buffers"
    return sheet._replace(
        columns=[
            Column("phase", numeric=False),
            Column("memory"),
            Column("over the step", numeric=False, spare=1, explained=[told]),
            *(Column(HEADINGS[place], spare=2) for place in shown),
        ],
        rows=[
            [
                NAMES.get(phase.phase, phase.phase),
                of(Bytes(phase.peak_bytes), TrainingMemory.timeline, phase.phase, StepPhase.peak_bytes),
                _bar([getattr(phase, key) for key in KEYS], memory.answer),
                *(
                    of(Bytes(getattr(phase, KEYS[place])), TrainingMemory.timeline, phase.phase, KEYS[place])
                    for place in shown
                ),
            ]
            for phase in phases
        ],
        notes=[
            *(sheet.notes if memory.judge else ()),
            *(card_lines(on_card, memory.by.units) if on_card else ()),
            *memory.notes[1:],
        ],
        not_counted=sheet.not_counted if memory.judge else footer.not_counted,
        assumptions=sheet.assumptions
        if memory.judge
        else (*footer.assumptions, *(card_assumptions() if on_card else ())),
        see_also=["--json (all columns)", *(it for it in memory.footer.see_also if not it.startswith(APART))],
        legend={},
        depths=(),
        paths=(),
        detailed=None,
    )


NAMES = {"step": "optimizer step"}


def _bar(sizes: list[int], peak: int) -> str:
    """One mark for each thirtieth of the peak, each kind as long as its sum with those before it ends."""
    ends = [round(WIDE * sum(sizes[: place + 1]) / peak) for place in range(len(sizes))]
    return "".join(mark * (end - begin) for mark, begin, end in zip(MARKS, [0, *ends], ends, strict=False))


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
    "litgpt": "loss of chunks of 128 tokens, whose logits the loop has in fp32",
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
DORA = (
    "DoRA as peft's DoraLinearLayer: each forward pass computes the norms of W + s A B in the adapters' format without "
    "a gradient, and saves the results of W and of the adapters, which it scales"
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
OWN_CODE = "PyTorch's own code"
"""By which layers that loop over time are counted."""
FUSED_TAKE_LESS = "fused kernels (fla, mamba-ssm), not modelled, take less"
"""What a card shows beyond the peak: where it is simulated, it stands in a line of its own."""
NOT_COUNTED = (
    "CUDA context (0.3 to 0.8 GB), workspaces but cuBLAS's, the allocator's rounding and fragmentation, communication "
    "buffers"
)
LOOPS = {
    "trainer": "loop trainer: the logits are freed before backward, as by transformers' Trainer; by out = "
    "model(**batch); out.loss.backward() {} of them would not be (--loop tutorial)",
    "tutorial": "loop tutorial: out = model(**batch); out.loss.backward() frees {} of logits only when the next step's "
    "take their place, after its forward; a cache of keys and values, as use_cache=True makes one, would live as long, "
    "and is not counted",
}


TOKENS_OF_STEP = "tokens_per_step"
ON_CARD = When(lambda memory: memory.on_card is not None, "device_bytes")
"""Where the step's allocations are known in their order."""
LIVE = "what is live when this phase needs most, on the tape"
OF_STATES = (".states_bytes", ".gradients_bytes", ".activations_bytes", ".gathered_bytes", ".temporary_bytes")


class StepPhase(Record):
    """The highest moment of a phase of a step."""

    phase = text("forward, backward or step", lambda phase: phase.name)
    peak_bytes = integer("the peak of this phase", lambda phase: phase.total, total(*OF_STATES))
    states_bytes = integer("weights, optimizer states and buffers", lambda phase: phase.standing, found(LIVE))
    gradients_bytes = integer("gradients", lambda phase: phase.gradients, found(LIVE))
    activations_bytes = integer("tensors saved for backward", lambda phase: phase.activations, found(LIVE))
    gathered_bytes = integer("gathered weights", lambda phase: phase.gathered, found(LIVE))
    temporary_bytes = integer("temporary tensors", lambda phase: phase.temporary, found(LIVE))


def of_card(figure: str, end: str) -> Any:
    """A figure of the card, or an end of its band."""
    return lambda memory: getattr(getattr(memory.on_card, figure), end)


def shown(meaning: str, figure: str, end: str, *origins: Stated | Rule) -> Key[int]:
    """Return the key of a figure that a card shows of the step."""
    return integer(meaning, of_card(figure, end), *origins, when=ON_CARD, place=FIRST)


class TrainingMemory(PeakMemory):
    """The peak of a training step: the largest amount of memory live at once.

    Its numbers come from a step that runs with plain numbers, until somebody reads the formulas of what the peak is
    made of (``whole``): then from that which runs with formulas, which takes several times as long.
    """

    form = "--train"
    constants: ClassVar[Mapping[str, object]] = {"phase": "train"}
    stated: ClassVar[Sequence[str]] = (
        *Memory.stated,
        *(
            "batch_size",
            "seq_len",
            "source_len",
            "attention_kernel",
            "recomputation",
            "dropout",
            "lora",
            "lora_targets",
        ),
        *(
            "dora",
            "freeze",
            "preset",
            "precision",
            "optimizer",
            "optimizer_in_backward",
            "offload_activations",
            "backend",
        ),
        *(
            "loss",
            "compile",
            "device",
            "capability",
            "loop",
            "alloc_conf",
            "grad_accum",
            "lora_dtype",
            "lora_dropout",
            "base_weights",
            "quantize_head",
            "bitsandbytes",
        ),
        *("zero", "gpus", "layout", "gradient_as_bucket_view", "offload", "tensor_parallel", "sequence_parallel"),
        *("pipeline_parallel", "virtual_pipeline", "context_parallel", "bytes_per_parameter", "total"),
        "micro_batches",
        *("data_parallel", "global_batch_size", TOKENS_OF_STEP),
    )

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.step.peak.total, PARTS),
        "weights": (MemoryTerm("weights"),),
        "gradients": (MemoryTerm("gradients"),),
        "optimizer": (MemoryTerm("optimizer"),),
        "activations": (MemoryTerm("activations"),),
        "buffers": (MemoryTerm("buffers and inputs"), OF_BUFFERS),
        "temporary": (lambda memory: memory.step.peak.temporary, MemoryTerm("temporary")),
    }
    master_weights_bytes = integer("fp32 master weights", MemoryTerm("master weights")).behind(Memory.weights_bytes)
    workspaces_bytes = integer("workspaces of libraries (cuBLAS)", MemoryTerm("workspaces")).behind(
        Memory.buffers_bytes
    )
    outputs_bytes = integer("outputs that the training loop holds", MemoryTerm("outputs"))
    gathered_bytes = integer(
        "weights gathered from other GPUs", lambda memory: memory.step.peak.gathered, MemoryTerm("gathered")
    )
    communication_bytes = integer(
        "buffers of communication", MemoryTerm("communication"), total("components.communication.bytes")
    )
    host_bytes = integer(
        "bytes in the host's memory, not part of total_bytes",
        lambda memory: sum(on_host(memory.step).values()),
        Told(lambda memory: _summed(on_host(memory.step))),
    ).behind(Memory.temporary_bytes)
    compared = boolean(
        "false where what the model's class saves for backward was never compared with tensors of a run",
        lambda _: False,
        when=When(lambda memory: never_compared(memory.model_, memory.plan)),
    )
    timeline = records(StepPhase, "the highest moment of each phase of a step", lambda memory: memory.step.phases)
    allocated_high_bytes = shown(
        "upper end of the band of torch.cuda.max_memory_allocated()",
        "allocated",
        "high",
        found("the peak, more the error of published peaks"),
    )
    allocated_low_bytes = shown(
        "lower end of it", "allocated", "low", found("the peak, less the error of published peaks")
    )
    device_bytes = shown(
        "what nvidia-smi is expected to show: an estimate",
        "device",
        "bytes",
        total("reserved_bytes", Constant(CUDA_CONTEXT, "CUDA context")),
    )
    device_high_bytes = shown(
        "upper end of its band",
        "device",
        "high",
        found("reserved_high_bytes and the largest CUDA context that was measured"),
    )
    device_low_bytes = shown(
        "lower end of it", "device", "low", found("reserved_low_bytes and the smallest CUDA context that was measured")
    )
    reserved_bytes = shown(
        "what torch.cuda.max_memory_reserved() is expected to say: an estimate",
        "reserved",
        "bytes",
        found("PyTorch's caching allocator, simulated on the step's allocations in their order"),
    )
    reserved_high_bytes = shown(
        "upper end of its band",
        "reserved",
        "high",
        found("the upper end of what published runs measured over what is simulated"),
    )
    reserved_low_bytes = shown(
        "lower end of it",
        "reserved",
        "low",
        found("the lower end of what published runs measured over what is simulated"),
    )

    def __init__(
        self,
        model: Model,
        run: Workload,
        plan: Training,
        by: Conventions,
        depth: int | None = None,
        peaks: Peaks | None = None,
    ) -> None:
        self._model, self._by, self.depth = model, by, depth
        self.peaks = peaks or peaks_of(model)
        self.run, self.plan = resolved(self.peaks, run, plan)
        self._quick = training_numbers(model, self.run, self.plan, self.peaks)

    @property
    def step(self) -> Step:
        """The step, by whichever way it has run."""
        return self.__dict__.get("full", self._quick)  # type: ignore[no-any-return]

    @cached_property
    def full(self) -> TrainingStep:
        """The step with what its peak is made of, in formulas."""
        return training_step(self._model, self.run, self.plan, self.peaks)

    def term(self, name: str) -> Component:
        """A term by its name."""
        step, device = self.step, self.step.placed.device
        terms: dict[str, Callable[[], Component]] = {
            "weights": lambda: device.weights,
            "master weights": lambda: device.master,
            "gradients": lambda: device.gradients,
            "optimizer": lambda: device.optimizer,
            "activations": lambda: step.saved,
            "buffers and inputs": lambda: step.beside.buffers,
            "workspaces": lambda: step.beside.workspaces,
            "outputs": lambda: step.beside.outputs,
            "communication": lambda: step.placed.communication,
        }
        return terms[name]()

    def terms(self) -> Tree:
        """Return each term at its own maximum, with what is temporary at the peak: tensor by tensor."""
        told = f"each term at its own maximum; {self.peak_bytes:,} bytes are live at the peak"
        more = (*notes(self.run, self.plan), *of_loop(self.full, self.plan, self.by.units))
        return self._tensors(self.full.terms, told, *more)

    @property
    def live(self) -> Tree:
        """Tensors that are live at the peak."""
        return self._tensors(self.full.alive, f"as it is at the peak, where {self.peak_bytes:,} bytes are live")

    def _tensors(self, whole: Component, *told: str) -> Tree:
        from tfcalc.analysis.itemized import tree_of_terms  # what explain opens

        said = {**stated(self.run, self.plan), "units": self.by.units}
        return tree_of_terms(self._model, self.run, self.plan, whole, said, told, LETTERS)

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        return memory_breakdown(self.full.alive, self.depth)

    @cached_property
    def whole(self) -> Entry:
        """Breakdown of what is live at the peak."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        used = self._breakdown[1]
        letters = {letter: meaning for letter, meaning in LETTERS.items() if letter in used}
        return legend(used, self._model, self.run, self.plan) | letters

    @property
    def title(self) -> str:
        """The quantity, and when it is."""
        return f"peak, in {PHASES[self.step.peak.name]}"

    @property
    def phase_of_peak(self) -> str:
        """The phase with the largest moment."""
        return JSON_PHASE.get(self.step.peak.name, self.step.peak.name)

    @property
    def subtitle(self) -> str:
        """Model that is trained, and how."""
        return of_training(self._model, self.run, self.plan)

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of how it is trained, and of what is not counted."""
        return in_full(self.run, self.plan, self.by)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the other phases, on what is in the host's memory, and on how sure the numbers are."""
        return (
            _other_phases(self.step, self.by.units),
            *_on_host(self.step, self.plan, self.by.units),
            *self._not_simulated,
            *self._model.remarks(self.run),
            *_caveats(self._model, self.plan),
        )

    @property
    def footer(self) -> Footer:
        """Code that is assumed, what is not counted, and what to ask next."""
        plan, by = self.plan, self.by
        return Footer(
            assumes=(*as_footer(self._model, self.run, plan), *assumed_dtype(self._model, plan.precision)),
            not_counted=", ".join((CONTEXT, *_between_gpus(plan), FRAGMENTS)),
            see_also=("--gpu h100 (does it fit?)", "--timeline", "--formulas", "--assumptions"),
            assumptions=(*notes(self.run, plan), *of_loop(self.step, plan, by.units)),
        )

    @property
    def summary(self) -> Summary:
        """The terms at the peak."""
        return training_summary(
            entries_in(self.step.alive, self.depth),
            dict(self.totals),
            exact(self._model.tree(self.run).total(params)),
            self.subtitle,
            self.by.units,
            stepped=self.plan.optimizer_in_backward,
        )

    @property
    def simulates(self) -> bool:
        """Return whether the allocator is simulated: the allocations are known in their order, and few enough."""
        return not (self.plan.of_2022 or self._not_simulated)

    @cached_property
    def on_card(self) -> OnCard | None:
        """Figures that a card shows of it, where the allocator is simulated."""
        return self.peaks.on_card(self.run, self.plan, self.peak_bytes) if self.simulates else None

    @cached_property
    def _not_simulated(self) -> tuple[str, ...]:
        """Why the caching allocator's simulation would take too long, if it would."""
        if self.plan.megatron:
            return ()
        events = self.peaks.events_of(self.run, self.plan)
        if events <= LONGEST:
            return ()
        return (f"Reserved: not simulated, as a step allocates and frees {events:,} times (at most {LONGEST:,} are)",)

    def sheet(self) -> Sheet:
        """The terms at the peak; the phases; or the verdict."""
        if not self.over_time:
            return super().sheet()
        return timeline_sheet(self, super().sheet())

    def pictures(self) -> tuple[Bars]:
        """The phases of a step."""
        return (self.chart(),)

    def chart(self) -> Bars:
        """A bar for each phase of a step, at its peak, made of what is live then."""
        shown = [place for place, key in enumerate(KEYS) if any(getattr(phase, key) for phase in self.timeline)]
        found: Bars = charts().Bars(
            title=f"{self.subtitle}: memory over a step, each phase at its peak",
            parts=tuple(HEADINGS[place] for place in shown),
            rows=tuple(
                (NAMES.get(phase.phase, phase.phase), tuple(getattr(phase, KEYS[place]) for place in shown))
                for phase in self.timeline
            ),
            units=self.by.units,
        )
        return found


def resolved(peaks: Peaks, workload: Workload, plan: Training) -> tuple[Workload, Training]:
    """Return what is run and how, with all that was left open.

    Raises InvalidModel; UsageError for what has no effect.
    """
    model = peaks.model
    workload = asked_run(model, workload)
    model.check(workload)
    effective = TRAINING if not plan.megatron else MEGATRON_RUN - {"kernel"} if plan.of_2022 else MEGATRON_RUN
    refuse_idle(workload, effective, "on the memory of training")
    refuse_idle_source(model, workload)
    return peaks.resolved(workload, plan)


def _between_gpus(plan: Training) -> tuple[str, ...]:
    """Return the buffers in which GPUs exchange gradients and weights, as far as they are not counted."""
    if plan.copies == 1:
        return ()
    counted = plan.zero == "0" or placement_of(plan).by_units
    ring = ("keys and values on their way around the ring",) * (plan.context_parallel != 1)
    return ("NCCL's buffers" if counted else "communication buffers of ZeRO", *ring)


def _other_phases(step: Step, units: str) -> str:
    """``Other phases: forward 70.5 GiB, optimizer step 74.8 GiB``."""
    others = (phase for phase in step.phases if phase.name != step.peak.name)
    return OTHER_PHASES + ", ".join(
        f"{PHASES[phase.name].removeprefix('the ')} {short_bytes(phase.total, units)}" for phase in others
    )


def _summed(sizes: Mapping[str, int]) -> Rule | None:
    """The sum of what is not 0; None where all is."""
    terms = [Constant(size, f"of {name}") for name, size in sizes.items() if size]
    return total(*terms) if terms else None


def on_host(step: Step) -> dict[str, int]:
    """Bytes in the host's memory, by what they are of."""
    held = {STATES.get(name, name): bytes_in(state) for name, state in step.placed.host._asdict().items()}
    return held | {"activations": bytes_in(step.saved_on_host)}


def _on_host(step: Step, plan: Training, units: str) -> Iterator[str]:
    """``Host memory: 4.00 GiB of activations``; what is paged is there only if the GPU has no room."""
    held = on_host(step)
    paged = held.pop(STATES["optimizer"]) if optimizer(plan.optimizer).paged else 0
    if told := [f"{short_bytes(size, units)} of {name}" for name, size in held.items() if size]:
        yield f"Host memory: {', '.join(told)}"
    if paged:
        yield f"Unified memory: {short_bytes(paged, units)} of optimizer states, on the GPU while there is room"


VERSIONS = {BITSANDBYTES: " or later", BITSANDBYTES_OLD: ", which saves the inputs of 4-bit products"}
"""What is said of bitsandbytes' versions."""
STATES = {"master": "master weights", "optimizer": "optimizer states"}
"""What states are called, where it is not the name of their field."""


def as_footer(model: Model, run: Workload, plan: Training) -> tuple[str, ...]:
    """Return a description of the code, in a line."""
    again = "no gradient checkpointing" if run.recompute == "none" else f"gradient checkpointing {run.recomputed}"
    again += ", offloaded" if plan.offload_activations else ""
    master = ("no fp32 master weights",) if plan.precision in PURE and plan.lora is None else ()
    if plan.megatron:
        kernel = () if plan.of_2022 else (f"{run.kernel} attention",)
        return (backend(plan.backend).label, *kernel, again)
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
    of_4_bits = plan.base_weights.startswith(OF_BITSANDBYTES) and backend(plan.backend).by_bitsandbytes
    return (
        f"{plan.lora_dtype} adapters{' under autocast' * precision(plan.precision).autocast}",
        *([f"bitsandbytes {plan.bitsandbytes}{VERSIONS[plan.bitsandbytes]}"] if of_4_bits else []),
        *(["quantized head"] if plan.quantize_head else []),
    )


CONV1D = ("gpt2", "openai-gpt", "imagegpt", "decision_transformer")
"""Types whose linear maps are transformers' Conv1D: their weights are inputs x outputs.

Source: peft's tuners/lora/dora.py and utils/other.py (``transpose``).
"""


def never_compared(model: Model, plan: Training) -> bool:
    """Return whether nobody compared what the class saves for backward; Megatron's code has rules of its own."""
    return not plan.megatron and known_error(model) is None


def _caveats(model: Model, plan: Training) -> Iterator[str]:
    """Yield how far the family's activations were from PyTorch's, where unequal, and which parts' are not counted."""
    code = backend(plan.backend)
    error = 0.0 if plan.megatron else known_error(model)
    if in_llama_cpp(model):
        yield "llama.cpp's files are not trained: counted is the checkpoint that this one was made from"
    if SAVED not in code.compared:
        yield f"Accuracy: what {code.label} saves was never compared with tensors of a run"
    elif never_compared(model, plan):
        yield "Accuracy: what this class saves for backward was never compared with tensors of a run"
    elif error:
        yield f"Accuracy: activations of this class are within {abs(error):.2%} of PyTorch's (random small models)"
    yield from experts_without_adapters(model, plan)
    if plan.precision == PRODUCTS_ALONE:
        yield IN_8_BITS
    if plan.lora is not None and _names_experts(model, plan):
        yield "Not counted: what adapters beside experts save (peft's target_parameters); their weights are"
    if plan.dora and drops(plan.lora_dropout) and backend_for(model, plan.backend).dora_computes_again:
        yield "Dropout with DoRA: peft runs each adapted matrix twice, and saves a copy of it (not without dropout)"
        if isinstance(model, HFModel) and model.family.model_type in CONV1D:
            yield "Not counted: peft makes a parameter of each Conv1D's transposed weight then, which has a gradient"
    if plan.tensor_parallel != 1 and not plan.megatron:
        yield "Accuracy: an estimate; layers that GPUs share under FSDP were compared with DTensor's of one small model"
    if plan.layout == FSDP1:
        yield "Accuracy: what FSDP1 reserves is a guess; it gathers on a stream of its own, whose freed blocks may wait"
    if is_upper_bound(model, plan):
        off = f"{max(each.off for each in model.module().time_loops()):.0%}".replace("%", " %")
        yield f"Accuracy: peaks of layers that loop over time are within {off} of PyTorch's (random small models)"
        yield f"This is {OWN_CODE}: {FUSED_TAKE_LESS}"
    yield from of_text_alone(model)


def _names_experts(model: Model, plan: Training) -> bool:
    """Return whether a target is a matrix of the experts, which is no module."""
    targets = {name.rpartition(".")[2] for name in listed(plan.lora_targets)}
    mixtures = (each for each in model.module().all_of() if getattr(each, "kind", "") == "experts")
    return any(part.name in targets for mixture in mixtures for part in mixture.all_of())


def _bytes_in_words(by: Precision, plan: Training) -> str:
    """Say the bytes of a parameter in this precision, with what the plan's optimizer keeps of a wide matrix."""
    return by.in_words(bytes_of_a_number(optimizer(plan.optimizer), by.moments), states_in_words(plan.optimizer))


def _kernel(run: Workload, plan: Training) -> str:
    if plan.of_2022:
        return "attention scores saved, as in the paper (unless --checkpointing selective)"
    return f"attention kernel {run.kernel}"


def stated(run: Workload, plan: Training) -> dict[str, object]:
    """Return the definitions that the number was made by, for programs."""
    by, idle = precision(plan.precision), ("beside", *(OF_METHODS if plan.method == SFT else ()))
    return {
        "phase": "train",
        "batch_size": run.batch_size,
        "seq_len": run.target.length,
        "source_len": run.source.seen,
        "attention_kernel": "none: attention scores saved" if plan.of_2022 else run.kernel,
        "recomputation": run.recomputed,
        "dropout": run.drops,
        **{name: value for name, value in plan.described().items() if name not in idle},
        "bytes_per_parameter": _bytes_in_words(by, plan),
        "total": "the peak: the largest amount of memory live at once, not the sum of the terms",
        "micro_batches": plan.grad_accum,
        "data_parallel": plan.data_parallel,
        "global_batch_size": global_batch(run, plan),
        TOKENS_OF_STEP: tokens_of_step(run, plan),
    }


def in_full(run: Workload, plan: Training, conventions: Conventions) -> dict[str, object]:
    """Return the definitions that the number was made by, with the units, and with what is not counted."""
    return {**stated(run, plan), "units": conventions.units, "not_counted": NOT_COUNTED}


def of_loop(step: Step, plan: Training, units: str) -> Iterator[str]:
    """Yield what holds the logits, and their size."""
    if step.logits:
        yield LOOPS[plan.loop].format(short_bytes(step.logits, units))


def _preset(name: str) -> Iterator[str]:
    """Yield what a preset stands for, from where, and what of it is not modelled."""
    found = training_preset(name)
    yield f"preset {name} stands for {found.flags}, where nothing else was given"
    yield f"source of the preset: {found.source} at {found.revision}"
    yield f"not modelled of the preset: {'; '.join(found.not_modelled)}"


def notes(run: Workload, plan: Training) -> Iterator[str]:
    """Yield all that the answer rests on, in words."""
    by = precision(plan.precision)
    dropout = "with dropout where the config has some" if run.drops else "no dropout"
    again = "no gradient checkpointing" if run.recompute == "none" else f"recomputed in backward: {recomputed(run)}"
    formats = f"precision {by.name}: {_bytes_in_words(by, plan)}"
    yield f"{formats}; optimizer {plan.optimizer}; {_kernel(run, plan)}; {dropout}; {again}"
    if plan.preset:
        yield from _preset(plan.preset)
    if plan.lora is not None:
        bits = trained_in(plan)
        dropped = f", dropout {plan.lora_dropout}" if plan.lora_dropout else ""
        formats = f"{plan.lora_dtype} ({_bytes_in_words(bits, plan)})"
        yield f"adapters in {formats}, as peft runs them{dropped}; all else is frozen"
        if plan.dora:
            yield DORA
    if not plan.megatron and SAVED in backend(plan.backend).compared:
        yield DEVICES[plan.device]
    if plan.device == "cuda" and not plan.megatron and plan.capability != METAL:
        yield WORKSPACES
    if run.drops and not plan.megatron:
        yield DROPOUT_MASKS
    if plan.size("gpus") != 1:
        sharing = f"ZeRO stage {plan.zero}, tensors split {plan.layout}, offload {plan.offload}"
        yield f"one of {plan.size('gpus'):,} GPUs, {sharing}"
    if placement_of(plan).by_units:
        computed, kept = (NUMBERS[each].name for each in (by.gathered, by.reduced))
        yield (
            f"FSDP: each layer's weights are gathered in {computed} as it runs, its gradients reduced in {kept}; with "
            "the buffers of both, the next layer's weights in backward, and all of what is in no layer"
        )
    if plan.copies != 1 and plan.gradient_as_bucket_view:
        yield "DDP buckets: gradients are views of them, and are never freed (gradient_as_bucket_view=True)"
    elif plan.copies != 1 and plan.zero == "0" and not plan.megatron:
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
