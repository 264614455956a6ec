"""The memory of preference and policy training as an answer: the phases of a step, by parts, and which decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.itemized import tree_of_terms
from tfcalc.answers.memory_base import (
    PARTS,
    PeakMemory,
    memory_breakdown,
    of_text_alone,
    of_training,
    tokens_of_step,
)
from tfcalc.answers.training_memory import (
    NAMES,
    NOT_COUNTED,
    TOKENS_OF_STEP,
    TrainingMemory,
    as_footer,
    in_full,
    resolved,
    stated,
)
from tfcalc.core.component import Component, Cost, Held
from tfcalc.defaults import assumed_dtype
from tfcalc.plans import COLOCATE, DPO, NO_ENGINE, PPO, SERVER
from tfcalc.report import Entry, Footer
from tfcalc.report.declared import TOGETHER, Key, Record, integer, records, text
from tfcalc.report.opening import found, total
from tfcalc.report.sheet import Bytes, Cell, Column, Sheet, of
from tfcalc.training.methods import OF_METHODS, copies_reference, has_reference, scores_again, written
from tfcalc.training.peaks import Peaks, training_step
from tfcalc.training.schedule import GENERATE, Parts, ScheduledPhase
from tfcalc.training.step_terms import LETTERS, TEMPORARY, TrainingStep, lump
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.training.measured import OnCard
    from tfcalc.workload import Conventions, Workload

LIVE = found("what there is all the time, and what the phase's own run takes when it takes most")
DECIDES = found("of the phase that decides: see step_phases")
CALLED: Mapping[str, str] = {
    "weights": "weights",
    "master_weights": "master weights",
    "optimizer": "optimizer",
    "gradients": "gradients",
    "reference": "reference",
    "critic": "critic",
    "reward": "reward model",
    "engine": "vLLM",
    "buffers": "buffers",
    "kv_cache": "KV cache",
    "activations": "activations",
    "gathered": "gathered",
    "temporary": "temporary",
}
"""What the parts of a phase are called."""
MEANINGS: Mapping[str, str] = {
    "weights": "weights of the trained model",
    "master_weights": "fp32 master weights",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "reference": "weights and buffers of the reference model",
    "critic": "weights and optimizer states of the critic",
    "reward": "weights of the reward model",
    "engine": "vLLM on the same GPU",
    "buffers": "buffers, inputs, workspaces and communication",
    "kv_cache": "KV cache of the trained model",
    "activations": "tensors saved for backward",
    "gathered": "weights gathered from other GPUs",
    "temporary": "temporary tensors",
}
IN_PHASE: Mapping[str, str] = {
    **NAMES,
    "hand over": "weights handed over",
    "reference": "reference pass",
    "entropy": "entropy of logits",
    "values": "critic's pass",
    "backward of values": "critic's backward",
}
"""What the phases are called, where it is not their name."""


def of_phase(part: str) -> Key[int]:
    """Return the key of a part of a phase."""
    return integer(MEANINGS[part], lambda phase: getattr(phase.parts, part), LIVE)


class PhaseKeys(Record, further={f"{part}_bytes": of_phase(part) for part in Parts._fields}):
    """The highest moment of a phase."""

    phase = text(
        "hand over, generate, score; of training values, forward, loss, reference, entropy, backward, backward of "
        "values, step",
        lambda phase: phase.name,
    )
    total_bytes = integer(
        "all that is live then", lambda phase: phase.total, total(*(f".{part}_bytes" for part in Parts._fields))
    )


def deciding(part: str) -> Any:
    """A part of the phase that decides."""
    return lambda memory: getattr(memory.schedule.peak.parts, part)


class MethodMemory(PeakMemory):
    """The peak over the phases of a step: completions are written, scored, and trained on."""

    form = "--method"
    constants: ClassVar[Mapping[str, object]] = {"phase": "train"}
    stated: ClassVar[Sequence[str]] = (*TrainingMemory.stated, *OF_METHODS)

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.schedule.peak.total, PARTS),
        "cache": (deciding("kv_cache"), DECIDES),
        **{
            part: (deciding(part), DECIDES)
            for part in ("weights", "gradients", "optimizer", "activations", "buffers", "temporary")
        },
    }
    completions = integer(
        "completions that a GPU writes at once",
        lambda memory: written(memory.run, memory.plan) if memory.plan.method != DPO else 0,
        found("batch and accumulation, up to whole groups of --num-generations over all GPUs"),
    )
    step_phases = records(
        PhaseKeys, "the phases of a step, each at its peak", lambda memory: memory.schedule.phases, place=TOGETHER
    )

    simulates = False
    """Whether the caching allocator is simulated: not for several phases."""
    on_card: OnCard | None = None

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
        self.peaks = peaks or Peaks(model)
        self.run, self.plan = resolved(self.peaks, run, plan)
        self.schedule = self.peaks.schedule(self.run, self.plan)

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        peak = self.schedule.peak.parts._asdict()
        parts = tuple(
            Component(CALLED[name], name, Cost(held=(Held(CALLED[name], (size,), 8),)))
            for name, size in peak.items()
            if size
        )
        return memory_breakdown(Component("memory", "memory", parts=parts), self.depth)

    @cached_property
    def whole(self) -> Entry:
        """The parts of the phase that decides."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """Empty: every part is a number."""
        return {}

    @property
    def title(self) -> str:
        """The quantity, and when it is."""
        return f"peak, in {_in_words(self.schedule.peak)}"

    @property
    def phase_of_peak(self) -> str:
        """The phase that decides."""
        return self.schedule.peak.name

    @property
    def subtitle(self) -> str:
        """Model that is trained, and how."""
        run = self.run if self.plan.method == DPO else self.schedule.run
        pairs = " of each of the pair" if self.plan.method == DPO else ""
        return f"{self.plan.method.upper()} of {of_training(self._model, run, self.plan)}{pairs}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of how it is trained, and of what is not counted."""
        run = self.schedule.run
        told = in_full(run.replaced(batch_size=self.run.batch_size), self.plan, self.by)
        return {**told, TOKENS_OF_STEP: tokens_of_step(run, self.plan)}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the models that are there beside the trained one."""
        return (
            *_beside(self),
            *_on_host(self),
            *_accuracy(self.plan),
            *self._model.remarks(self.schedule.run),
            *of_text_alone(self._model),
        )

    @property
    def footer(self) -> Footer:
        """Code that is assumed, what is not counted, and what to ask next."""
        return Footer(
            assumes=(
                _code(self.plan),
                *as_footer(self._model, self.schedule.run, self.plan.replaced(loss="auto")),
                *assumed_dtype(self._model, self.plan.precision),
            ),
            not_counted="CUDA context, fragmentation (allow 5-15 %)",
            see_also=("--gpu h100 (does it fit?)", "--json", "--assumptions"),
            assumptions=tuple(_assumed(self)),
        )

    def sheet(self) -> Sheet:
        """The phases with their parts, or the verdict."""
        if self.judge is not None and not self.over_time:
            return self.judge.sheet()
        phases, peak = self.schedule.phases, self.schedule.peak
        most = {part: max(getattr(each.parts, part) for each in phases) for part in Parts._fields}
        shown = [part for part, size in most.items() if size]
        smaller = sorted(shown, key=lambda part: -most[part])  # what is smallest leaves a narrow table first
        told = self.judge.sheet() if self.judge is not None else self._alone()
        return told._replace(
            columns=[
                Column("phase", numeric=False),
                Column("memory"),
                *(Column(CALLED[part], spare=1 + smaller.index(part)) for part in shown),
            ],
            rows=[
                [
                    _in_words(each, peak),
                    of(Bytes(each.total), MethodMemory.step_phases, each.name, PhaseKeys.total_bytes),
                    *(_size(each, part) for part in shown),
                ]
                for each in phases
            ],
            detailed=None,
        )

    def _alone(self) -> Sheet:
        """Return the sheet without its rows, where there is no verdict."""
        footer = self.footer
        quiet = of(self.total_bytes, MethodMemory.total_bytes)
        return Sheet(self.headline(), (), (), quiet, self.subtitle, notes=self.notes, **footer._asdict())

    @cached_property
    def full(self) -> TrainingStep:
        """The training step with what its peak is made of, in formulas."""
        return training_step(self._model, self.schedule.run, self.plan, self.peaks)

    def terms(self) -> Tree:
        """Return each term of the training step at its own maximum, and the models beside it: tensor by tensor."""
        there = self.full.terms
        beside = ("reference", "critic", "reward", "engine", "kv_cache")
        most = {part: max(getattr(each.parts, part) for each in self.schedule.phases) for part in beside}
        lumps = tuple(lump(CALLED[part], size, TEMPORARY)._replace(kind=part) for part, size in most.items() if size)
        told = (
            "each term of the training step at its own maximum, and what other phases hold beside the model",
            *_assumed(self),
        )
        said = {**stated(self.run, self.plan), "units": self.by.units}
        as_buffers = {part.name for part in (*self.full.beside, self.full.placed.communication)}
        buffers = tuple(part for part in there.parts if part.name in as_buffers)
        grouped = Component(CALLED["buffers"], "buffers", parts=buffers)
        alone = (part for part in there.parts if part.name not in as_buffers)
        tree = there._replace(parts=(*alone, grouped, *lumps))
        return tree_of_terms(self._model, self.schedule.run, self.plan, tree, said, told, LETTERS)


def _code(plan: Training) -> str:
    """Return whose code scores the tokens."""
    if plan.method == PPO:
        return "TRL 1.8, logits of all tokens"
    if plan.loss == "logits":
        return f"TRL {'1.8' if plan.method == DPO else '0.17'}, log-probabilities of all logits"
    return "TRL 1.16, log-probabilities in tiles of logits (earlier TRL: --loss logits)"


def _size(phase: ScheduledPhase, part: str) -> Cell:
    size = getattr(phase.parts, part)
    return of(Bytes(size), MethodMemory.step_phases, phase.name, f"{part}_bytes") if size else None


def _in_words(phase: ScheduledPhase, peak: ScheduledPhase | None = None) -> str:
    return IN_PHASE.get(phase.name, phase.name) + ", the peak" * (phase is peak)


def _beside(memory: MethodMemory) -> Iterator[str]:
    """Yield which models there are beside the trained one, and which is not on this GPU."""
    plan, run = memory.plan, memory.run
    if copies_reference(plan):
        yield "Reference: a copy of the model, without gradients"
    elif has_reference(plan):
        yield "Reference: the model itself with its adapters switched off"
    elif plan.method == DPO:
        yield "Reference: its log-probabilities are computed before training, and it is freed"
    else:
        yield "Reference: none, as --beta is 0"
    if plan.method == DPO:
        return
    count = written(run, plan)
    sizes = f"{plan.max_prompt_length:,} + {plan.max_completion_length:,} tokens"
    by = {
        NO_ENGINE: "by transformers' generate",
        COLOCATE: f"by vLLM on the same GPU{_asleep(plan)}",
        SERVER: "by vLLM on other GPUs, of which nothing is counted here",
    }[plan.vllm_mode]
    yield f"Completions: {count:,} at once on each GPU, of {sizes}, {by}"


def _on_host(memory: MethodMemory) -> Iterator[str]:
    """Yield what is in the host's memory."""
    schedule = memory.schedule
    held = {"model states": schedule.states_on_host, "vLLM's weights, asleep": schedule.weights_on_host}
    if told := [f"{short_bytes(size, memory.by.units)} of {name}" for name, size in held.items() if size]:
        yield f"Host memory: {', '.join(told)}"


def _accuracy(plan: Training) -> Iterator[str]:
    if plan.method == PPO:
        yield "Accuracy: an estimate; backward of TRL's PPOTrainer took 2 to 12 % more (small random models)"


def _asleep(plan: Training) -> str:
    return "" if plan.sleep == "0" else f", which sleeps (level {plan.sleep}) while it does not generate"


def _assumed(memory: MethodMemory) -> Iterator[str]:
    """Yield all that the answer rests on, in words."""
    plan = memory.plan
    yield "peak = the largest of the phases' peaks; each phase is a run of its own on the tape, over what stands"
    yield f"whose code: {_code(plan)}; saved tensors as in PyTorch 2.13 on CUDA"
    if plan.method == DPO:
        yield "a batch of pairs is twice as many sequences, of --seq tokens each; dropout is off (disable_dropout=True)"
        yield "the reference model's pass runs between the trained model's forward and backward pass"
    else:
        yield "prompts and completions have their full lengths; rewards are computed by functions that hold nothing"
        if scores_again(memory.run, plan):
            yield "the model scores its completions once more before it is trained on them"
        yield f"{GENERATE}: all completions of a step at once; a token is drawn from logits in fp32"
    if plan.vllm_mode == COLOCATE:
        share = plan.vllm_gpu_memory_utilization
        took = f"takes {share} of the GPU's memory" if share else "takes its weights and the cache of all completions"
        yield f"vLLM {took}; asleep it holds nothing (its CUDA graphs and context are not counted)"
        yield "weights are handed to vLLM one by one; ZeRO-3 gathers all of them first where adapters are merged"
    if plan.method == PPO:
        yield "critic and reward model: the same architecture with one output in the place of the words (TRL 1.8)"
    yield f"not counted: {NOT_COUNTED}; what PyTorch's allocator reserves is not simulated for several phases"
