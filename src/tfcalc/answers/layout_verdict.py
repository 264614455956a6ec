"""Verdict on a GPU of a layout: whether it fits on a card, its largest micro-batch, what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.answers.layout_memory import LayoutMemory
from tfcalc.answers.ranks import ranks
from tfcalc.answers.verdict import Fit, StepCase, capacity, check_margin, plan_command
from tfcalc.core.traced import value_of
from tfcalc.errors import UsageError
from tfcalc.hardware import named
from tfcalc.search.gpus import MARGIN
from tfcalc.search.layouts import stages_of_stack
from tfcalc.search.remedies import Options, of_layout
from tfcalc.timing.rates import DEEPSPEED, machine_of

if TYPE_CHECKING:
    from tfcalc.answers.ranks import RanksAnswer
    from tfcalc.plans import Training
    from tfcalc.search.gpus import Capacity, Simulated
    from tfcalc.search.largest import GrowingSize
    from tfcalc.training.measured import OnCard
    from tfcalc.workload import Conventions, Workload


class OfLayout(StepCase):
    """A GPU of a layout within a budget. Micro-batches, their length, checkpointing and ZeRO's stage may change."""

    memory: LayoutMemory

    def __init__(self, memory: LayoutMemory, budget: Capacity) -> None:
        super().__init__(memory, budget, memory.run, memory.plan)
        self._found = {(memory.run, memory.plan): memory}

    def _with(self, run: Workload, plan: Training) -> LayoutMemory:
        """The memory of another workload and plan in the same layout. Raises InvalidModel."""
        if (run, plan) not in self._found:
            asked = self.memory.ranks
            at = asked.at._replace(sequence_parallel=asked.at.sequence_parallel or plan.sequence_parallel)
            own = plan.replaced(sequence_parallel=False)  # which is of the layout
            found = ranks(self.model, at, run, own, stack=asked.stack)
            self._found[run, plan] = LayoutMemory(found, self.memory.by)
        return self._found[run, plan]

    @cached_property
    def simulates(self) -> bool:  # type: ignore[override]  # found when it is read
        """Return whether PyTorch's allocator is simulated."""
        return self.room < self.budget.bytes and self.budget.of_gpu and self.memory.simulated is not None

    @cached_property
    def on_card(self) -> OnCard | None:  # type: ignore[override]  # found when it is read
        """Figures that a GPU shows of it."""
        return self.memory.on_card if self.room < self.budget.bytes and self.budget.of_gpu else None

    def simulated(self, run: Workload, plan: Training) -> Simulated | None:
        """PyTorch's allocator on a card of some bytes, as far as it is simulated."""
        return self._with(run, plan).simulated if self.simulates else None

    def _peak(self, run: Workload, plan: Training) -> int:
        return self._with(run, plan).there.peak.bytes

    def ways(self) -> Options:
        """Return the changes that leave the layout as it is."""
        at, stack = self.memory.ranks.at, self.memory.ranks.stack
        stages = () if value_of(at.copies) == 1 else stages_of_stack(stack, pipeline=value_of(at.pp) != 1)
        shares_tokens = at.sequence_parallel or value_of(at.tp) == 1 or stack == DEEPSPEED
        return of_layout(self.run, self.plan, stages, shares_tokens=shares_tokens)

    def sizes(self) -> list[GrowingSize]:
        """Return the micro-batch and its length."""
        return [self._size(self.run, "batch_size"), self._size(self.run, "seq_len")]

    def other_layouts(self) -> Iterator[str]:
        """Yield the search over all layouts of as many GPUs, where their seconds are known."""
        if not self.budget.card or machine_of(named(self.budget.card)[0]) is None:
            return
        at, run, plan, stack = self.memory.ranks.at, self.run, self.plan, self.memory.ranks.stack
        batch = value_of(run.batch_size * plan.grad_accum * at.dp)
        asked = value_of(at.gpus), value_of(run.seq_len), batch
        found = plan_command(self.model, self.budget.card, *asked) or "tfcalc plan"
        yield f"Other layouts are not among these changes: {found} --stack {stack} tries them all"


def memory_of_layout(
    asked: RanksAnswer,
    by: Conventions,
    *,
    depth: int | None = None,
    budget: Capacity | str | int | None = None,
    margin: int = MARGIN,
) -> LayoutMemory:
    """Return the memory of a GPU of a layout, with a verdict where there is a ``budget``, of one GPU or of all of them.

    Raises InvalidModel where nobody knows what is saved for backward; UsageError as :func:`tfcalc.fits`.
    """
    found = LayoutMemory(asked, by, depth)
    if budget is None:
        return found
    check_margin(margin)
    there, gpus = capacity(budget, None), value_of(asked.at.gpus)
    if there.gpus not in (1, gpus):
        raise UsageError(f"a layout of {gpus:,} GPUs contradicts {there.gpus}x{there.card}", "leave one of them out")
    case = OfLayout(found, there)
    case.margin = margin
    found.judge = Fit(found, case)
    return found
