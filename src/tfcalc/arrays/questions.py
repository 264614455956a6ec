"""SweepQuestion of a sweep at each of its points: the closed forms there, and the single answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfcalc.analysis.axes import MODEL, RUN, SERVING, TRAINING, Axis, axes, placed
from tfcalc.analysis.common import check_plans, run_tree, tuning_for
from tfcalc.analysis.quantities import measure_of
from tfcalc.answers.metrics import HEADLINES, Headline
from tfcalc.answers.question import Question
from tfcalc.configs.published import CONTEXT, HFModel, has_kinds
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import EFFORT, formula_of
from tfcalc.defaults import own_format, resolve_dtype
from tfcalc.errors import UsageError
from tfcalc.model import asked_run
from tfcalc.plans import LAYOUT, Serving, Training
from tfcalc.serving.caches import PAGED
from tfcalc.serving.memory import cache_bytes, served_bytes
from tfcalc.serving.stored import reads_alone
from tfcalc.training.peaks import live_bytes

if TYPE_CHECKING:
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.workload import Conventions, Workload

OF_A_STEP = 300
"""Effort of a point that is a report of training, beside its operations."""
QUANTITIES = {
    "params": "parameters",
    "trainable": "parameters that are trained",
    "flops": "FLOPs of the workload",
    "memory": "bytes at rest, at the peak of a training step, or in serving",
    "cache": "bytes of the caches in serving",
}
"""Quantities that can be swept."""


@dataclass(frozen=True)
class SweepQuestion:
    """A quantity of a model on a workload, by definitions and plans; ``weights`` is the format of a model at rest.

    ``runs`` says what is run of a model: where no length is given, as long a sequence as that model reads.
    """

    of: str
    model: Model
    workload: Workload
    runs: Callable[[Model], Workload]
    conventions: Conventions
    training: Training | None = None
    serving: Serving | None = None
    weights: str | None = None

    @property
    def headline(self) -> Headline:
        """The number that is swept, in the single answer."""
        return HEADLINES["peak" if self.of == "memory" and not self.at_rest else self.of]

    @property
    def at_rest(self) -> bool:
        """Return whether it is the memory of a model at rest."""
        return self.of == "memory" and self.training is None and self.serving is None

    def at(self, axes: Sequence[Axis], sizes: Mapping[str, Num]) -> SweepQuestion:
        """Return the question at these sizes, by the names of their axes."""
        model = self.model.replaced(**placed(axes, MODEL, sizes))
        run = self.runs(model).replaced(**placed(axes, RUN, sizes))
        training, serving = placed(axes, TRAINING, sizes), placed(axes, SERVING, sizes)
        return replace(
            self,
            model=model,
            workload=asked_run(model, run),
            training=(self.training or Training()).replaced(**training) if training else self.training,
            serving=(self.serving or Serving()).replaced(**serving) if serving else self.serving,
        )

    def apart(self, axes: Sequence[Axis]) -> frozenset[str]:
        """The sizes of which each value has a run of its own: nothing remembers what is decided by them."""
        if self.by_itself or any(axis.of == SERVING and axis.field in LAYOUT for axis in axes):
            return frozenset(axis.name for axis in axes)
        whole = self.of == "memory" and (self.training or self.serving)
        of = {MODEL, TRAINING} if whole else {TRAINING}
        return frozenset(axis.name for axis in axes if axis.of in of or self._unseen(axis))

    def _unseen(self, axis: Axis) -> bool:
        """Return whether something depends on the size before the model reads it, so that it is not traced.

        That is the longest sequence, which is run by default, and the number of layers of kinds that are listed.
        """
        if axis.of != MODEL:
            return False
        called = (axis.field, *self.model.also_called(axis.field))
        if any(name.removeprefix("text_config.") in ("max_len", *CONTEXT) for name in called):
            return True
        return isinstance(self.model, HFModel) and any(
            has_kinds(self.model.data, path) for path in self.model.places(axis.field)
        )

    def refuse_unread(self, axes: Sequence[Axis]) -> None:
        """Raise UsageError for a size of a config that nothing reads."""
        if isinstance(self.model, HFModel):
            for axis in axes:
                if axis.of == MODEL and (field := self.model.unread(axis.field)):
                    raise UsageError(f"{axis.name} has no effect: this model does not read {field}", "leave it out")

    @property
    def by_itself(self) -> bool:
        """Return whether every point needs a run of its own: formats and code that choose by numbers."""
        if self.at_rest:
            own = own_format(self.model) if self.conventions.dtype == "auto" else None
            return bool(self.weights) or (own is not None and not own.format.plain)
        if self.training is not None and self.of == "memory":
            return self.training.megatron
        if self.serving is None:
            return False
        alone = self.serving.shared or reads_alone(self.model)
        return alone or (self.of == "memory" and self.serving.cache != PAGED)

    def forms(self) -> Sequence[Polynomial]:
        """Return all forms that may be the answer, which is the highest of them.

        Raises InvalidModel as the single answer does.
        """
        if self.by_itself:
            EFFORT.spend(OF_A_STEP if self.training else 0)
            return [Polynomial({(): self.single()})]
        if self.of == "memory" and self.training is not None:
            self.model.check(self.workload)
            return live_bytes(self.model, self.workload, self.training)
        if self.serving is not None:
            asked = cache_bytes if self.of == "cache" else served_bytes
            return asked(self.model, self.workload, self.serving, self.conventions.dtype)
        self.model.check(self.workload)
        tuning = tuning_for(self.model, self.training, self._words)
        root = run_tree(self.model, self.workload, None if tuning is None else tuning.plan)
        by = resolve_dtype(self.model, self.conventions) if self.at_rest else self.conventions
        return [formula_of(root.total(measure_of(self.of, self.workload, by)))]

    @property
    def _words(self) -> str:
        return "FLOPs" if self.of == "flops" else "parameters"

    def single(self) -> int:
        """The number of the single answer, at sizes that are ints. Raises what that raises."""
        report = self.question().report()
        key = self.headline.key
        return int(str(report.totals[key])) if self.of in ("trainable", "cache") else report.answer

    def question(self, called: str = "") -> Question:
        """The question of the single answer."""
        command = self.headline.command
        run = None if self.at_rest or command == "params" else self.workload
        plans = self.training, self.serving
        return Question(command, self.model, run, self.conventions, *plans, self.weights, called)

    def placed_at(self, sizes: Mapping[str, int]) -> SweepQuestion:
        """Return the plan or the workload with these sizes, by name."""
        found = axes(sizes, self.model, self.workload, self.training is not None, self.serving is not None)
        return self.at(found, dict(sizes))

    def check(self) -> None:
        """Raise InvalidModel for what is no plan."""
        check_plans(self.training, self.serving)
