"""Bytes of a plan of training or of serving: its peak, the parts that people state, and peaks of plans next to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from tfcalc.analysis.facts import facts
from tfcalc.analysis.why.given import BYTES_UNIT
from tfcalc.analysis.why.search import SearchSpace, Start, State
from tfcalc.analysis.why.step_tensors import logits
from tfcalc.analysis.why.tensors import Cell
from tfcalc.answers.memory import memory_of
from tfcalc.answers.memory_base import TERMS, PeakMemory
from tfcalc.answers.training_memory import PHASES, TrainingMemory
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.model import default_run
from tfcalc.named_tuple import NamedTuple
from tfcalc.plans import GRPO, Serving, Training, training_preset
from tfcalc.search.remedies import Change
from tfcalc.training.peaks import Peaks
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.model import Model

OTHER, PART, CHANGED, RARELY = 0.25, 0.5, 1.0, 1.25
"""What it costs to take the number for another phase's, for a part of the peak, or for that of another plan."""
STATES = ("weights", "master weights", "optimizer", "gradients")
TRL_OF_2025, OF_TRL = "trl/grpo-0.17", ("recompute", "precision", "optimizer", "loss", "beta")
"""Whose GRPO took much more memory than later ones do, and by which of its options."""
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)


class AskedPlan(NamedTuple):
    """The plan that a number is said to be of: what ``asks`` for the memory of one, and the fields that were ``typed``.

    ``called`` is the model on the command line.
    """

    asks: Callable[[Workload, Training | Serving], PeakMemory]
    run: Workload
    plan: Training | Serving
    called: str
    typed: Collection[str]
    known: Facts

    @classmethod
    def of(
        cls, model: Model, run: Workload, plan: Training | Serving, called: str, typed: Collection[str] | None = None
    ) -> AskedPlan:
        """A model's plan; what was ``typed`` are by default the fields that have another value than their own."""
        peaks = Peaks(model)
        others = {
            item.name
            for one, own in ((run, Workload()), (plan, type(plan)()))
            for item in fields(one)
            if getattr(one, item.name) != getattr(own, item.name)
        }

        def asks(run: Workload, plan: Training | Serving) -> PeakMemory:
            if isinstance(plan, Serving):
                return cast("PeakMemory", memory_of(model, run, serving=plan))
            return cast("PeakMemory", memory_of(model, run, training=plan, peaks=peaks))

        known = facts(model, model.tree(default_run(model).replaced(seq_len=1)))
        return cls(asks, run, plan, called, others if typed is None else typed, known)

    @property
    def memory(self) -> PeakMemory:
        """The memory of the plan itself."""
        return self.asks(self.run, self.plan)

    @property
    def trains(self) -> bool:
        """True if it is one of training."""
        return isinstance(self.plan, Training)

    def command(self, change: Change | None = None) -> str:
        """The command that asks for its memory, or for that of the plan with a change."""
        given = {
            item.name: getattr(one, item.name)
            for one in (self.run, self.plan)
            for item in fields(one)
            if item.name in self.typed and item.name != "phase"
        }
        typed = Change("as typed", given | dict(change.values if change else {}))
        words = ("tfcalc memory", self.called, "--train" if self.trains else "--serve")
        return " ".join([*filter(None, words), *typed.flags(Workload(), type(self.plan)())])


def space(asked: AskedPlan) -> SearchSpace:
    """The numbers of the plan, and the peaks of plans that differ from it by one thing that nobody typed."""
    return SearchSpace([*_of_itself(asked), *_of_others(asked)], [])


def _of_itself(asked: AskedPlan) -> Iterator[Start[Cell]]:
    memory, command = asked.memory, asked.command()
    yield _start("peak", f"the {memory.title}", memory.peak_bytes, 0.0, command)
    terms = {entry.name: entry.value for entry in memory.whole.parts}
    for name, size in terms.items():
        yield _start(name, f"{TERMS.get(name, name)} at the peak", size, PART, command)
    states = [name for name in STATES if name in terms]
    if len(states) > 1:
        *first, last = (TERMS[name] for name in states)
        words = f"{', '.join(first)} and {last} at the peak, without activations"
        yield _start("states", words, sum(terms[name] for name in states), PART, command)
    if (gpus := value_of(asked.plan.gpus or 1)) > 1:
        yield _start("all_gpus", f"the peaks of all {gpus} GPUs together", gpus * memory.peak_bytes, CHANGED, command)
    for row in logits(asked.known) if asked.trains else ():
        tokens = value_of(asked.run.target.tokens)
        words = f"{row.what}, of {tokens:,} tokens"
        size, text = tokens * row.each, f"{tokens:,} x {row.each:,} bytes"
        yield _start(row.what, words, size, PART, command)._replace(what=text)
    for phase in memory.step.phases if isinstance(memory, TrainingMemory) else ():
        if phase.total != memory.peak_bytes:
            words = f"the most that there is in {PHASES[phase.name]}; the peak is elsewhere"
            yield _start(f"peak_in_{phase.name}", words, phase.total, OTHER, command)


def _of_others(asked: AskedPlan) -> Iterator[Start[Cell]]:
    for cost, change in _changes(asked):
        if change.values.keys().isdisjoint(asked.typed):
            run, plan = change.applied(asked.run), change.applied(asked.plan)
            with suppress(TfcalcError):  # a plan that is refused has no peak
                name = "_".join(f"{field}_{value}" for field, value in change.values.items())
                yield _start(
                    name, f"the peak {change.name}", asked.asks(run, plan).peak_bytes, cost, asked.command(change)
                )


def _changes(asked: AskedPlan) -> Iterator[tuple[float, Change]]:
    """Changes to what people leave unsaid and often have otherwise, each with what it costs to suppose it."""
    length, batch = ("seq_len", "batch_size") if asked.trains else ("context", "concurrency")
    for tokens in LENGTHS:
        yield CHANGED, Change(f"with {tokens:,} tokens", {length: tokens})
    for requests in (2, 4, 8, 16, 32):
        words = f"with batches of {requests}" if asked.trains else f"with {requests} requests"
        yield CHANGED, Change(words, {batch: requests})
    if not asked.trains:
        yield RARELY, Change("with a cache in fp8", {"kv": "fp8"})
        return
    other, words = ("full", "with") if asked.run.recompute == "none" else ("none", "without")
    yield OTHER, Change(f"{words} gradient checkpointing", {"recompute": other})
    if isinstance(asked.plan, Training) and asked.plan.method == GRPO:
        options = training_preset(TRL_OF_2025).options
        yield CHANGED, Change(f"as by --preset {TRL_OF_2025}", {name: options[name] for name in OF_TRL})
    for precision in ("bf16", "bf16-autocast", "bf16-master"):
        yield CHANGED, Change(f"in {precision}", {"precision": precision})
    for optimizer in ("adamw-8bit", "paged-adamw-8bit", "sgd"):
        yield CHANGED, Change(f"with {optimizer}", {"optimizer": optimizer})
    yield RARELY, Change("with eager attention", {"kernel": "eager"})


def _start(name: str, words: str, size: int, cost: float, command: str) -> Start[Cell]:
    state: State[Cell] = State({Cell("bytes"): size})
    return Start(name, f"{size:,} bytes", words, state, command, cost, BYTES_UNIT, deep=0)


def notes(asked: AskedPlan) -> Iterator[str]:
    """Notes on what else a measured number of such a plan has in it."""
    if asked.trains:
        yield (
            f"nvidia-smi shows more than the peak: what PyTorch's allocator keeps, and the CUDA context; "
            f"{asked.command()} --gpu h100 has both"
        )
    else:
        yield f"an engine fills 90 % of a card, whatever it needs: {asked.command()} --gpu h100"
