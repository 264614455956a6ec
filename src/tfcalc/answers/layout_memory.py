"""The memory of a GPU of a layout in training as an answer: of the stage that holds most, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from tfcalc.analysis.itemized import tree_of_terms
from tfcalc.answers.memory_base import (
    PARTS,
    MemoryTerm,
    PeakMemory,
    entries_in,
    memory_breakdown,
    of_text_alone,
    of_training,
    training_summary,
)
from tfcalc.answers.ranks import LayoutKeys, RanksAnswer, ReservedKeys, StageMemory
from tfcalc.answers.training_memory import CONTEXT as CUDA_CONTEXT
from tfcalc.answers.training_memory import FRAGMENTS, JSON_PHASE, PHASES, TrainingMemory, in_full
from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel
from tfcalc.hardware import CONTEXT
from tfcalc.report import Entry, Footer, Summary
from tfcalc.report.declared import integer, record, text
from tfcalc.report.opening import found
from tfcalc.timing.rates import MEGATRON
from tfcalc.training.measured import OnCard, on_card
from tfcalc.training.step_terms import bytes_in
from tfcalc.units import short_bytes

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.answers.ranks import RankOfStage
    from tfcalc.plans import Training
    from tfcalc.search.gpus import Simulated
    from tfcalc.workload import Conventions, Workload

STATES = ("weights", "master", "gradients", "optimizer")
TERM_OF = {"master weights": "master"}
"""Terms whose name is not that of a state's field."""
NOT_COUNTED = f"{CUDA_CONTEXT}, NCCL's buffers, {FRAGMENTS}"


class LayoutMemory(PeakMemory):
    """The peak of a GPU of a layout, of the stage that holds most: the numbers of ``ranks``.

    Its micro-batch, the length of its sequences and its plan are those of the ``ranks``.
    """

    form = "--stack"
    constants: ClassVar[Mapping[str, object]] = {"phase": "train"}
    stated: ClassVar[Sequence[str]] = TrainingMemory.stated

    own_rules: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "total": (lambda memory: memory.there.peak.bytes, PARTS),
        **{name: (MemoryTerm(name),) for name in ("weights", "gradients", "optimizer", "activations", "temporary")},
    }
    master_weights_bytes = TrainingMemory.master_weights_bytes.made(MemoryTerm("master weights"))
    gathered_bytes = TrainingMemory.gathered_bytes.made(MemoryTerm("gathered"))
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
        """Micro-batch that a GPU runs."""
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
        """Peak of its GPU, and what is reserved there."""
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
        return Component(name, name, Cost(held=(Held(name, (sizes[name],), 8),)))

    @cached_property
    def _live(self) -> Component:
        names = ("weights", "master weights", "optimizer", "gradients", "activations", "gathered", "temporary")
        parts = (self.term(name) for name in names)
        return Component("memory", "memory", parts=tuple(part for part in parts if bytes_in(part)))

    def terms(self) -> Tree:
        """Return each term, of the states tensor by tensor."""
        return tree_of_terms(self._model, self.run, self.plan, self._live, self.definitions, self._assumed, {})

    @property
    def live(self) -> Tree:
        """Tensors that are live at the peak."""
        return self.itemized

    @cached_property
    def whole(self) -> Entry:
        """The terms at the peak."""
        return memory_breakdown(self._live, self.depth)[0]

    @property
    def legend(self) -> Mapping[str, str]:
        """Empty: every term is a number."""
        return {}

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
        """Model that is trained, and how: ``mixtral-8x7b, full fine-tuning, …, Megatron-core, 8 groups of experts``."""
        groups = value_of(self.ranks.at.ep)
        experts = f", {groups:,} groups of experts" if groups != 1 else ""
        told = of_training(self._model, self.run, self.ranks.whole_plan)
        return f"{told}{experts}, {self.ranks.by.title}"

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definitions of how it is trained, and of what is not counted."""
        told = in_full(self.run.of_flops, self.ranks.whole_plan, self._by)
        by = self.ranks.by
        kernel = "none: attention scores saved" if by.eager_attention else "flash"
        own = {"attention_kernel": kernel, "backend": by.name, "layout": by.cut, "not_counted": NOT_COUNTED}
        return {**told, **own}

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
        scores = ("attention scores saved",) if self.ranks.by.eager_attention else ()
        return Footer(
            assumes=(self.ranks.by.title, *scores, again),
            not_counted=NOT_COUNTED,
            see_also=("--gpu h100 (does it fit?)", "--json", "--assumptions"),
            assumptions=self._assumed,
        )

    @property
    def _assumed(self) -> tuple[str, ...]:
        plan = self.plan
        how = "a step that runs on a tape" if self.there.simulated else "the closed form of plan"
        scores = (
            "softmax, dropout's mask and result of all scores are saved: DeepSpeed with Megatron-LM's layers of 2022"
        )
        return (
            *((scores,) if self.ranks.by.eager_attention else ()),
            f"peak: states of the parameters that the GPU stores, and what is saved at once, by {how}",
            f"{self.ranks.by.title}, precision {plan.precision}, optimizer {plan.optimizer}, ZeRO {plan.zero}",
            f"not counted: {NOT_COUNTED}",
        )

    @property
    def summary(self) -> Summary:
        """The terms at the peak."""
        stored = sum(value_of(each.params) for each in self.fullest.stored)
        told = dict(self.totals)
        return training_summary(entries_in(self._live, self.depth), told, stored, self.subtitle, self._by.units)

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
