"""What a sweep asks at each of its points: the closed forms there, and the same as a single answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcalc.analysis.common import check_plans, run_tree, tuning_for
from tfcalc.analysis.quantities import measure_of
from tfcalc.arrays.points import MODEL, RUN, SERVING, TRAINING, Axis, axes, placed
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import formula_of
from tfcalc.defaults import own_format, resolve_dtype
from tfcalc.footprint.plans import Serving, Training
from tfcalc.footprint.serving.caches import PAGED

if TYPE_CHECKING:
    from tfcalc.conventions import Conventions
    from tfcalc.core.number import Num
    from tfcalc.model import Model
    from tfcalc.report import Report
    from tfcalc.workload import Workload

QUANTITIES = {
    "params": "parameters",
    "trainable": "parameters that are trained",
    "flops": "FLOPs of the workload",
    "memory": "bytes at rest, at the peak of a training step, or in serving",
    "cache": "bytes of the caches in serving",
}
"""What can be swept."""


@dataclass(frozen=True)
class Question:
    """A quantity of a model on a workload, by definitions and plans; ``weights`` is the format of a model at rest."""

    of: str
    model: Model
    workload: Workload
    conventions: Conventions
    training: Training | None = None
    serving: Serving | None = None
    weights: str | None = None

    @property
    def column(self) -> tuple[str, str]:
        """The key of the number, as in the JSON of a single answer, and its unit."""
        if self.of in ("params", "trainable"):
            return ("total_params" if self.of == "params" else "trainable_params"), "params"
        if self.of == "flops":
            return "total_flops", "flops"
        if self.of == "cache":
            return "kv_cache_bytes", "bytes"
        return ("total_bytes" if self.at_rest else "peak_bytes"), "bytes"

    @property
    def at_rest(self) -> bool:
        """Whether it is the memory of a model that nothing is done with."""
        return self.of == "memory" and self.training is None and self.serving is None

    def at(self, axes: Sequence[Axis], sizes: Mapping[str, Num]) -> Question:
        """The same with these sizes, by the names of their axes."""
        training, serving = placed(axes, TRAINING, sizes), placed(axes, SERVING, sizes)
        return Question(
            self.of,
            self.model.replaced(**placed(axes, MODEL, sizes)),
            self.workload.replaced(**placed(axes, RUN, sizes)),
            self.conventions,
            (self.training or Training()).replaced(**training) if training else self.training,
            (self.serving or Serving()).replaced(**serving) if serving else self.serving,
            self.weights,
        )

    def apart(self, axes: Sequence[Axis]) -> frozenset[str]:
        """The sizes of which each value has a run of its own: nothing remembers what is decided by them."""
        if self.by_itself:
            return frozenset(axis.name for axis in axes)
        of = {MODEL, TRAINING} if self.training or self.serving else {TRAINING}
        return frozenset(axis.name for axis in axes if axis.of in of)

    @property
    def by_itself(self) -> bool:
        """Whether every point is a single answer: formats and code that choose by numbers, and nothing else."""
        if self.at_rest:
            own = own_format(self.model) if self.conventions.dtype == "auto" else None
            return bool(self.weights) or (own is not None and not own.format.plain)
        if self.training is not None and self.of == "memory":
            return self.training.backend == "megatron"
        return self.serving is not None and self.of == "memory" and self.serving.cache != PAGED

    def forms(self) -> Sequence[Polynomial]:
        """All that may be the answer, of which it is the highest. Raises InvalidModel as the single answer does."""
        if self.by_itself:
            return [Polynomial({(): self.single()})]
        if self.of == "memory" and self.training is not None:
            from tfcalc.analysis.training_memory import live_bytes

            self.model.check(self.workload)
            return live_bytes(self.model, self.workload, self.training)
        if self.serving is not None:
            from tfcalc.analysis.serving_memory import cache_bytes, served_bytes

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
        report = self.report()
        keys = {"trainable": "trainable_params", "cache": "kv_cache_bytes"}
        return int(str(report.totals[keys[self.of]])) if self.of in keys else report.answer

    def report(self) -> Report:
        """The single answer."""
        if self.of in ("params", "trainable"):
            from tfcalc.analysis.params import params

            return params(self.model, training=self.training)
        if self.of == "flops":
            from tfcalc.analysis.flops import flops

            return flops(self.model, self.workload, self.conventions, training=self.training)
        from tfcalc.analysis.memory import memory

        return memory(
            self.model,
            None if self.at_rest else self.workload,
            self.conventions,
            training=self.training,
            serving=self.serving,
            weights=self.weights,
        )

    def report_at(self, sizes: Mapping[str, int]) -> Report:
        """The single answer with these sizes, by name."""
        return self.placed_at(sizes).report()

    def placed_at(self, sizes: Mapping[str, int]) -> Question:
        """The same with these sizes, by name."""
        found = axes(sizes, self.model, self.workload, self.training is not None, self.serving is not None)
        return self.at(found, dict(sizes))

    def check(self) -> None:
        """Raise InvalidModel for what is no plan."""
        check_plans(self.training, self.serving)
