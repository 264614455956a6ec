"""The memory of shapes: a bound that is found soon, and the bytes themselves, for which a step runs on a tape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.design.amounts import AT_DEPTH
from tfcalc.analysis.design.family import DEPTH, ShapeFamily
from tfcalc.answers.question import AskedNumber, Question
from tfcalc.model import Model, own_run
from tfcalc.plans import Training
from tfcalc.serving.memory import least_served, served
from tfcalc.training.peaks import Peaks
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.plans import Serving


@dataclass(frozen=True, slots=True)
class MemoryAmount:
    """Memory that is asked of each shape of a ``family``: of training, of serving, or at rest.

    ``most`` is the most there is: of a shape that certainly takes more, only that it does counts.
    """

    family: ShapeFamily
    most: int
    workload: Workload | None
    conventions: Conventions
    training: Training | None
    serving: Serving | None
    weights: str | None

    def of(self, model: Model) -> int:
        """The bytes that ``tfcalc memory`` answers with."""
        return self._asked(model).report().answer

    def question(self, model: Model) -> AskedNumber:
        """The number that they are."""
        return self._asked(model).number()

    def stated(self) -> dict[str, object]:
        """The definitions of it."""
        return dict(self._asked(self.family.base).report().conventions)

    def by_depth(self, sizes: Mapping[str, int]) -> AT_DEPTH:
        """Return the bytes of these sizes for each number of layers; where they are above ``most``, a lower bound."""
        known: dict[int, int] = {}

        def at(depth: int) -> int:
            if depth not in known:
                known[depth] = self._at_least(self.family.base.replaced(**sizes, **{DEPTH: depth}))
            return known[depth]

        return at

    def _at_least(self, model: Model) -> int:
        if self.training is not None or (self.workload is not None and self.workload.training):
            peaks = Peaks(model)
            step = own_run(model, self.workload).replaced(phase="train"), self.training or Training()
            least = peaks.least(*step)
            return least if least > self.most else peaks.peak(*step)
        if self.serving is not None:
            asked = own_run(model, self.workload), self.serving, self.conventions.dtype
            least = least_served(model, *asked)
            return least if least > self.most else served(model, *asked, formulas=False).total
        return self.of(model)

    def _asked(self, model: Model) -> Question:
        plans = (self.training, self.serving, self.weights)
        return Question("memory", model, self.workload, self.conventions, *plans)
