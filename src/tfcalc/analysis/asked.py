"""A question about one model with its answer, whose numbers are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfcalc.analysis.explain import Tree, to_open
from tfcalc.report.derivation import Derivation

if TYPE_CHECKING:
    from tfcalc.conventions import Conventions
    from tfcalc.model import Model
    from tfcalc.plans import Serving, Training
    from tfcalc.report.opening import Number
    from tfcalc.workload import Workload

Reach = Callable[[Sequence[str]], Any]
"""What a path of the answer leads to. Raises UsageError where there is nothing."""


@dataclass(frozen=True)
class Asked:
    """A question, and its answer: what it was asked of, its JSON, and where each option was ``given``, by its name.

    Its numbers are called by paths that begin with ``prefix``, the command where nothing else is given. Trees are built
    once, however many numbers are opened.
    """

    command: str
    answer: Mapping[str, Any]
    reach: Reach
    model: Model
    workload: Workload
    conventions: Conventions
    training: Training | None
    serving: Serving | None
    given: Mapping[str, str]
    named: str
    prefix: str = ""
    trees: dict[str, Tree] = field(default_factory=dict)

    def path(self, *keys: str) -> str:
        """What a number of the answer is called."""
        return ".".join([self.prefix or self.command, *keys])

    def tree(self, of: str) -> Tree:
        """What a quantity is the sum of."""
        if of not in self.trees:
            model, run, by = self.model, self.workload, self.conventions
            if self.in_phases:
                made = to_open(model, of, run, by, training=self.training, serving=self.serving)
            else:
                tuning = self.training if of != "memory" else None
                made = to_open(model, of, run if of == "flops" else None, by, training=tuning)
            self.trees[of] = made
        return self.trees[of]

    @property
    def in_phases(self) -> bool:
        """Whether it is memory of a step or of serving, whose tree has terms rather than modules."""
        return self.command == "memory" and "peak_bytes" in self.answer

    def told(self, keys: Sequence[str], value: Number, how: str, note: str, *, formula: str = "") -> Derivation:
        """A number of which a line says where it comes from."""
        return Derivation(
            heading=self.model.summary,
            path=self.path(*keys),
            of=self.command,
            value=value,
            how=how,
            terms=(),
            formula=formula,
            substituted="",
            note=note,
            model=dict(self.answer.get("model", {})) if isinstance(self.answer.get("model"), Mapping) else {},
            conventions=dict(self.answer.get("conventions", {})),
            legend={},
        )
