"""The numbers of a training step, each found when it is read: in plain numbers, without what it is made of."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.analysis.peaks import Peaks, on_megatron
from tfcalc.analysis.standing import bytes_in
from tfcalc.analysis.training_memory import check_step, saved_of
from tfcalc.analysis.training_plan import MEGATRON, check_code, piece_of
from tfcalc.defaults import resolve_training
from tfcalc.training.peak import highest
from tfcalc.training.states import NOTHING, outputs

if TYPE_CHECKING:
    from tfcalc.analysis.standing import Step
    from tfcalc.core.component import Component
    from tfcalc.model import Model
    from tfcalc.plans import Training
    from tfcalc.training.peak import Phase
    from tfcalc.training.states import Overheads, Placed
    from tfcalc.training.step import StepMemory
    from tfcalc.workload import Workload


class TrainingNumbers:
    """A step like that of :func:`~tfcalc.analysis.training_memory.training_step`, several times as fast.

    For the states nothing runs; for the peak a step does, and for what is saved a layer of each kind. Raises
    InvalidModel.
    """

    def __init__(self, model: Model, run: Workload, plan: Training, peaks: Peaks) -> None:
        self.model, self.run, self.plan = model, run, plan
        self.peaks = peaks
        check_step(model, run, plan)

    @property
    def placed(self) -> Placed:
        """The states."""
        return self._standing[1]

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        return highest(self.phases)

    @property
    def phases(self) -> list[Phase]:
        """All of them."""
        return self._phases[0]

    @property
    def beside(self) -> Overheads:
        """What stands beside the states."""
        return self._phases[1]

    @property
    def saved(self) -> Component:
        """What is kept for backward."""
        return self._saved[0]

    @property
    def saved_on_host(self) -> Component:
        """The same in the host's memory."""
        return self._saved[1] if self.plan.offload_activations else NOTHING

    @property
    def logits(self) -> int:
        """The bytes of those that the model returns."""
        return bytes_in(outputs(self._ran.returned))

    @cached_property
    def _standing(self) -> tuple[Component, Placed, Component]:
        return self.peaks.standing(self.run, self.plan)

    @property
    def _ran(self) -> StepMemory:
        return self.peaks.step(self.run, self.plan, noting=True)

    @cached_property
    def _phases(self) -> tuple[list[Phase], Overheads]:
        return self.peaks.phases(self.run, self.plan, self._ran)

    @cached_property
    def _saved(self) -> tuple[Component, Component]:
        piece = piece_of(self.model, self.run, self.plan)
        return saved_of(self._standing[0], piece, self.run, self.plan)


def training_numbers(model: Model, run: Workload, plan: Training, peaks: Peaks) -> Step:
    """The numbers of a step, whose allocations are noted when it runs. Raises InvalidModel."""
    run, plan = resolve_training(model, run, plan)
    check_code(model, run, plan)
    if plan.backend == MEGATRON:
        return on_megatron(model, run, plan)
    return TrainingNumbers(model, run, plan, peaks)
