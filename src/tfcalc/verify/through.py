"""The parameters of a config whose family tfcalc does not know, counted through transformers (``--via torch``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tfcalc.answers.conventions_text import as_json
from tfcalc.answers.params import CountedElsewhere
from tfcalc.core.component import Component, Cost, Weight
from tfcalc.core.measure import params as parameters
from tfcalc.report import Entry, breakdown
from tfcalc.report.opening import found
from tfcalc.verify.hugging_face import count
from tfcalc.workload import Conventions, Workload

if TYPE_CHECKING:
    from tfcalc.report.opening import Way
    from tfcalc.report.paths import Step


class ParamsThroughTransformers(CountedElsewhere):
    """Parameters counted by transformers, as a tree by their names; it has numbers, and no formulas."""

    def __init__(self, config: Mapping[str, object], depth: int | None = None) -> None:
        self.config, self.depth = config, depth
        self.architecture, self.sizes = count(config)

    @cached_property
    def whole(self) -> Entry:
        """The parameters by their names."""
        root = _tree(self.architecture, self.sizes).root()
        return breakdown(root, root, parameters, {"params": parameters})

    @property
    def heading(self) -> str:
        """The class, and who counted."""
        return f"{self.architecture} ({self.config.get('model_type')}), counted by transformers"

    @property
    def described(self) -> Mapping[str, object]:
        """The config."""
        return {"architecture": self.architecture, "config": dict(self.config)}

    @property
    def definitions(self) -> Mapping[str, object]:
        """Definition of what counts as a parameter, and who counted."""
        return as_json("params", Workload(), Conventions()) | {"counted_by": "transformers"}

    @property
    def notes(self) -> tuple[str, ...]:
        """Note on how it was counted."""
        return ("counted by transformers on the meta device (--via torch), without formulas",)

    def origins(self, steps: tuple[Step, ...]) -> Iterator[Way]:
        """Yield the origin of a number: each is what transformers' own module has."""
        if steps[0] not in ("model", "conventions", "schema_version"):
            yield found("counted by transformers, on the module that it builds without data")


def params_through(config: Mapping[str, object], *, depth: int | None = None) -> ParamsThroughTransformers:
    """Count with transformers. Raises Unavailable where it is not installed or cannot build the model."""
    return ParamsThroughTransformers(config, depth)


def _tree(name: str, sizes: Mapping[str, int]) -> Component:
    """The names' first words as parts, each with what is below it."""
    groups: dict[str, dict[str, int]] = {}
    own = []
    for path, size in sizes.items():
        first, _, rest = path.partition(".")
        if rest:
            groups.setdefault(first, {})[rest] = size
        else:
            own.append(Component(first, "parameter", Cost(weights=(Weight(first, (size,), key=""),))))
    parts = [_tree(first, below) for first, below in groups.items()]
    return Component(name, "module", parts=(*own, *parts))
