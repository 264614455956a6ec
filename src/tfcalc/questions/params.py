"""How many parameters, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.conventions import Definitions
from tfcalc.core.component import Component
from tfcalc.core.measure import active_params, major_params
from tfcalc.core.measure import params as parameters
from tfcalc.core.number import Num, total
from tfcalc.questions.common import subject
from tfcalc.questions.stated import for_programs, in_words
from tfcalc.report import Report, exact
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model


def params(model: Model, run: Workload | None = None, *, depth: int | None = None, approx: bool = False) -> Report:
    """The parameters of ``model``: their number, where they are, and by which formula.

    ``depth`` levels of the tree are shown; ``approx`` adds the count without biases and norms (12h² per encoder layer).
    Raises InvalidModel where no model has these sizes.

    >>> from tfcalc.families.transformer import Transformer
    >>> params(Transformer()).answer
    44140544
    """
    asked, by = subject(model, run), Definitions()
    root = asked.node.component
    entry = asked.entry(parameters, {"approx_params": major_params} if approx else {}, depth)
    count, embedded = entry.value, exact(_embedding(root))
    totals: dict[str, int | float | str] = {
        "total_params": count,
        "active_params": exact(root.total(active_params)),
        "embedding_params": embedded,
        "non_embedding_params": count - embedded,
        "trainable_params": count,
    }
    notes = [*in_words("params", asked.run, by), *asked.model.assumptions]
    if approx:
        major = exact(root.total(major_params))
        totals["approx_params"] = major
        notes.insert(0, f"without biases and norms: {major:,}, {(count - major) / count:.2%} off")
    return Report(
        command="params",
        heading=asked.model.summary,
        title="parameters",
        unit="params",
        answer=count,
        totals=totals,
        model=asked.model.described(),
        conventions=for_programs("params", asked.run, by),
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=tuple(notes),
    )


def parameter_count(model: Model) -> int:
    """The number alone, without the formulas."""
    return exact(model.tree(Workload()).total(parameters))


def _embedding(component: Component) -> Num:
    """Parameters of the token and position tables."""
    if component.kind in ("embedding", "position"):
        return component.total(parameters)
    return component.copies * total(_embedding(part) for part in component.parts)
