"""The memory of a GPU of a layout in training as an answer: of the stage that holds most, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.itemized import tree_of_terms
from tfcalc.answers.memory_base import (
    PARTS,
    Memory,
    MemoryTerm,
    PeakMemory,
    called,
    entries_in,
    memory_breakdown,
    of_text_alone,
    training_summary,
)
from tfcalc.answers.ranks import LayoutKeys, RanksAnswer, ReservedKeys, StageMemory, ranks
from tfcalc.answers.training_memory import CONTEXT as CUDA_CONTEXT
from tfcalc.answers.training_memory import FRAGMENTS, JSON_PHASE, PHASES, TOKENS_OF_STEP
from tfcalc.core.component import Component
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.hardware import CONTEXT
from tfcalc.model import legend
from tfcalc.report import Entry, Footer, Summary
from tfcalc.report.declared import integer, record, text
from tfcalc.report.opening import found
from tfcalc.timing.rates import MEGATRON
from tfcalc.training.measured import OnCard, on_card
from tfcalc.training.optimizers import optimizer
from tfcalc.training.step_terms import TEMPORARY, bytes_in, lump, term
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.answers.ranks import RankOfStage
    from tfcalc.model import Model
    from tfcalc.placed.layout import Layout
    from tfcalc.plans import Training
    from tfcalc.search.gpus import Simulated
    from tfcalc.workload import Conventions, Workload

STATES = ("weights", "master", "gradients", "optimizer")
AT_THE_PEAK = {TEMPORARY: "bytes at the peak, by the stack's own list of what is saved"}
TERM_OF = {"master weights": "master"}
"""Terms whose name is not that of a state's field."""
NOT_COUNTED = f"{CUDA_CONTEXT}, NCCL's buffers, {FRAGMENTS}"


class LayoutMemory(PeakMemory):
    """The peak of a GPU of a layout, of the stage that holds most: the numbers of ``ranks``.

    Its micro-batch, the length of its sequences and its plan are those of the ``ranks``.
    """

    form = "--stack"
    constants: ClassVar[Mapping[str, object]] = {"phase": "train"}
    stated: ClassVar[Sequence[str]] = (
        *Memory.stated,
        *("batch_size", "seq_len", "recomputation", "precision", "optimizer", "grad_accum", "zero", "gpus", "total"),
        *("micro_batches", "data_parallel", "global_batch_size", TOKENS_OF_STEP),
    )

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.there.peak.bytes, PARTS),
        **{name: (MemoryTerm(name),) for name in ("weights", "gradients", "optimizer", "activations", "temporary")},
    }
    master_weights_bytes = integer("fp32 master weights", MemoryTerm("master weights")).behind(Memory.weights_bytes)
    gathered_bytes = integer(
        "weights gathered from other GPUs' shards at the peak, with gradients before they are shared out",
        MemoryTerm("gathered"),
    ).behind(Memory.activations_bytes)
    stack = text("whose code runs: megatron, fsdp or deepspeed", lambda memory: memory.ranks.stack)
    layout = record(LayoutKeys, "how GPUs share the model, the sequence and the batch", lambda memory: memory.ranks.at)
    fullest_stage = integer("the stage whose GPU holds most, from 0", lambda memory: memory.place, found("its peak"))
    reserved = record(ReservedKeys, "what PyTorch reserves", lambda memory: memory.there)

    def __init__(self, ranks: RanksAnswer, by: Conventions, depth: int | None = None) -> None:
        self.ranks, self._by, self.depth = ranks, by, depth
        self._model = ranks.of
        if any(stage.memory is None for stage in ranks.found):
            fact = f"nobody knows what {self._model.summary} saves for backward under {ranks.by.title}"
            raise InvalidModel(fact, "tfcalc ranks has its weights, gradients and optimizer")

    @property
    def run(self) -> Workload:
        """A micro-batch."""
        return self.ranks.run

    @property
    def plan(self) -> Training:
        """The plan, of which the layout is no part."""
        return self.ranks.plan

    @cached_property
    def fullest(self) -> RankOfStage:
        """The stage that holds most; of equal ones the first."""
        return max(self.ranks.found, key=_peak)

    @property
    def place(self) -> int:
        """Its place in the pipeline, from 0."""
        return value_of(self.fullest.rank.at.stage)

    @property
    def there(self) -> StageMemory:
        """What its GPU has at the peak."""
        assert self.fullest.memory is not None
        return self.fullest.memory

    def term(self, name: str) -> Component:
        """A term by its name."""
        state = TERM_OF.get(name, name)
        if state in STATES:
            parts = (getattr(each.states.device, state) for each in self.fullest.stored)
            return Component(name, name, parts=tuple(part for part in parts if part.own.held or part.parts))
        peak = self.there.peak
        states = self.fullest.bytes_of(*STATES)
        sizes = {"activations": peak.saved, "gathered": peak.gathered}
        sizes["temporary"] = peak.bytes - states - sum(sizes.values())
        return term(lump(name, sizes[name], TEMPORARY))

    @cached_property
    def _live(self) -> Component:
        names = ("weights", "master weights", "optimizer", "gradients", "activations", "gathered", "temporary")
        parts = (self.term(name) for name in names)
        return Component("memory", "memory", parts=tuple(part for part in parts if bytes_in(part)))

    def terms(self) -> Tree:
        """Return each term, of the states tensor by tensor."""
        told = dict(self.definitions), self._assumed
        return tree_of_terms(self._model, self.run, self.plan, self._live, *told, dict(AT_THE_PEAK))

    @cached_property
    def _breakdown(self) -> tuple[Entry, frozenset[str]]:
        return memory_breakdown(self._live, self.depth)

    @cached_property
    def whole(self) -> Entry:
        """The terms at the peak."""
        return self._breakdown[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """The meaning of each letter of the breakdown."""
        used = self._breakdown[1]
        there = {letter: meaning for letter, meaning in AT_THE_PEAK.items() if letter in used}
        return legend(used, self._model, self.run, self.plan) | there

    @property
    def title(self) -> str:
        """The quantity, and whose it is."""
        stages = value_of(self.ranks.at.pp)
        where = f", of stage {self.place} of {stages}, which holds most" if stages != 1 else ""
        return f"peak of a GPU, in {PHASES[self.there.peak.phase]}{where}"

    @property
    def phase_of_peak(self) -> str:
        """The phase with the largest moment."""
        return JSON_PHASE.get(self.there.peak.phase, self.there.peak.phase)

    @property
    def subtitle(self) -> str:
        """``mixtral-8x7b, Megatron-core, bf16-megatron, AdamW, micro-batch 1 x 4,096 tokens per GPU, …``."""
        run, plan = self.run, self.plan
        batch = f"batch {run.batch_size:,} x {run.seq_len:,} tokens"
        micro = f", {plan.grad_accum:,} micro-batches" if plan.grad_accum != 1 else ""
        steps = optimizer(plan.optimizer).label
        return f"{called(self._model)}, {self.ranks.by.title}, {plan.precision}, {steps}, {batch}{micro}{self._on_gpus}"

    @property
    def _on_gpus(self) -> str:
        """`` per GPU, 64 GPUs = TP 2 x PP 4 x DP 8, EP 8, ZeRO-1``; nothing on one GPU."""
        at = self.ranks.at
        if value_of(at.gpus) == 1:
            return ""
        ways = {"TP": at.tp, "PP": at.pp, "CP": at.cp, "DP": at.dp}
        layout = " x ".join(f"{way} {value_of(size):,}" for way, size in ways.items() if value_of(size) != 1)
        experts = f", EP {value_of(at.ep):,}" if value_of(at.ep) != 1 else ""
        sharing = f", ZeRO-{self.plan.zero}" if self.plan.zero != "0" else ""
        return f" per GPU, {value_of(at.gpus):,} GPUs = {layout}{experts}{sharing}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of how it is trained, and of what is not counted."""
        run, plan, at = self.run, self.plan, self.ranks.at
        batch = run.batch_size * plan.grad_accum * at.dp
        return {
            "phase": "train",
            "batch_size": run.batch_size,
            "seq_len": run.seq_len,
            "recomputation": run.of_flops.recomputed,
            "precision": plan.precision,
            "optimizer": plan.optimizer,
            "grad_accum": plan.grad_accum,
            "zero": plan.zero,
            "gpus": value_of(at.gpus),
            "total": "the peak of the GPU that holds most: the largest amount of memory live at once",
            "micro_batches": plan.grad_accum,
            "data_parallel": value_of(at.dp),
            "global_batch_size": value_of(batch),
            TOKENS_OF_STEP: value_of(batch * run.seq_len),
            "units": self._by.units,
            "not_counted": NOT_COUNTED,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what is reserved, and on the other stages."""
        return (
            *self._reserved(),
            *self._other_stages(),
            *(("Experts: each gets the same number of tokens",) if value_of(self.fullest.rank.experts) else ()),
            *self._model.remarks(self.run),
            *of_text_alone(self._model),
        )

    def _reserved(self) -> Iterator[str]:
        if self.judge is None:
            _, low, high = (short_bytes(size, self._by.units) for size in self.there.reserved)
            how = "its allocator simulated" if self.there.simulated else "an estimate, by published runs"
            yield f"Reserved by PyTorch: {low} to {high} ({how})"

    def _other_stages(self) -> Iterator[str]:
        sizes = [_peak(stage) for stage in self.ranks.found]
        if len(sizes) > 1:
            yield f"The other stages hold {short_bytes(min(sizes), self._by.units)} or more at their peaks"

    @property
    def footer(self) -> Footer:
        """Code that is assumed, what is not counted, and what to ask next."""
        again = "no gradient checkpointing"
        if self.run.of_flops.recompute != "none":
            again = f"gradient checkpointing {self.run.of_flops.recomputed}"
        return Footer(
            assumes=(self.ranks.by.title, again),
            not_counted=NOT_COUNTED,
            see_also=("--gpu h100 (does it fit?)", "--json", "--assumptions"),
            assumptions=self._assumed,
        )

    @property
    def _assumed(self) -> tuple[str, ...]:
        plan = self.plan
        how = "a step that runs on a tape" if self.there.simulated else "the closed form of plan"
        return (
            f"peak: states of the parameters that the GPU stores, and what is saved at once, by {how}",
            f"{self.ranks.by.title}, precision {plan.precision}, optimizer {plan.optimizer}, ZeRO {plan.zero}",
            f"not counted: {NOT_COUNTED}",
        )

    @property
    def summary(self) -> Summary:
        """The terms at the peak."""
        stored = sum(value_of(each.params) for each in self.fullest.stored)
        shown: dict[str, int | str] = {"weights_bytes": self.weights_bytes, "gradients_bytes": self.gradients_bytes}
        shown |= {"optimizer_bytes": self.optimizer_bytes, "master_weights_bytes": self.master_weights_bytes}
        return training_summary(entries_in(self._live, self.depth), shown, stored, self.subtitle, self._by.units)

    @property
    def on_card(self) -> OnCard:
        """Figures that a card shows of it."""
        megatron = self.ranks.stack == MEGATRON
        return on_card(self.there.peak.bytes, self.there.reserved.bytes, CONTEXT, megatron=megatron)

    @property
    def simulated(self) -> Simulated | None:
        """PyTorch's allocator on a card of some bytes, where it is simulated."""
        return self.there.simulated


def _peak(stage: RankOfStage) -> int:
    assert stage.memory is not None
    return stage.memory.peak.bytes


def layout_memory(
    model: Model,
    layout: Layout | None,
    run: Workload,
    plan: Training | None,
    by: Conventions,
    *,
    stack: str = "",
    depth: int | None = None,
) -> LayoutMemory:
    """Return the memory of a GPU of a layout; without one GPU has all, without a ``stack`` it is Megatron-core's.

    Raises InvalidModel as :func:`tfcalc.ranks`, and where nobody knows what is saved for backward.
    """
    return LayoutMemory(ranks(model, layout, run, plan, stack=stack or MEGATRON), by, depth)
