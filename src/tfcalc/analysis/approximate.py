"""A part without its biases and norms, as texts count it (12h² for an encoder layer), and by how much that is off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.analysis.targets import find
from tfcalc.answers.explain import opened
from tfcalc.answers.formula import too_small
from tfcalc.core.measure import major, params
from tfcalc.errors import UsageError
from tfcalc.report import exact

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.report.explanation import Explanation


def approximate(target: str, of: str, tree: Tree) -> Explanation:
    """The lines of a part's matrices alone, and the exact count. Raises UsageError for all but parameters."""
    if of != "params":
        raise UsageError(f"approx works for parameters only, not for {of}", "leave approx out, or ask for params")
    node, found = find(tree.node, target), opened(target, of, tree._replace(items=major))
    return replace(
        found,
        exact=exact(node.component.each(params)),
        quantity=f"{found.quantity} without biases and norms",
        notes=(*too_small(node, tree.model), *found.notes),
    )
