"""The parameters of a config whose family tfcalc does not know, counted through transformers (``--via torch``)."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.analysis.stated import for_programs
from tfcalc.conventions import Conventions
from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Tensor
from tfcalc.core.measure import params as parameters
from tfcalc.report import Report, breakdown
from tfcalc.verify.hugging_face import count
from tfcalc.workload import Workload


def params_through(config: Mapping[str, object], *, depth: int | None = None) -> Report:
    """Tree of transformers' own count, by the parameters' names; it has numbers and no formulas.

    Raises Unavailable where transformers is not installed or cannot build it.
    """
    architecture, sizes = count(config)
    root = _tree(architecture, sizes).root()
    entry = breakdown(root, root, parameters, {"params": parameters})
    return Report(
        command="params",
        heading=f"{architecture} ({config.get('model_type')}), counted by transformers",
        title="parameters",
        unit="params",
        answer=entry.value,
        totals={"total_params": entry.value, "trainable_params": entry.value},
        model={"architecture": architecture, "config": dict(config)},
        conventions=for_programs("params", Workload(), Conventions()) | {"counted_by": "transformers"},
        whole=entry,
        depth=depth,
        legend={},
        notes=("counted by transformers on the meta device (--via torch), without formulas",),
    )


def _tree(name: str, sizes: Mapping[str, int]) -> Component:
    """The names' first words as parts, each with what is below it."""
    groups: dict[str, dict[str, int]] = {}
    own = []
    for path, size in sizes.items():
        first, _, rest = path.partition(".")
        if rest:
            groups.setdefault(first, {})[rest] = size
        else:
            own.append(Component(first, "parameter", Cost(weights=(Tensor(first, (size,), key=""),))))
    parts = [_tree(first, below) for first, below in groups.items()]
    return Component(name, "module", parts=(*own, *parts))
