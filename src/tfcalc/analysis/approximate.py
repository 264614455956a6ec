"""A part without its biases and norms, as texts count it (12h² for an encoder layer), and by how much that is off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.core.measure import major_params, params
from tfcalc.core.polynomial import Polynomial
from tfcalc.report import exact
from tfcalc.report.sheet import Share, for_people
from tfcalc.report.style import Style

if TYPE_CHECKING:
    from tfcalc.core.component import Node
    from tfcalc.model import Model
    from tfcalc.report.explanation import Explanation


def approximately(found: Explanation, node: Node, model: Model) -> Explanation:
    """The explanation of a part's matrices alone, with the exact count of the part."""
    return replace(
        found,
        exact=exact(node.component.each(params)),
        quantity=f"{found.quantity} without biases and norms",
        notes=(*too_small(node, model), *found.notes),
    )


def too_small(node: Node, model: Model) -> list[str]:
    """State by how much the form without biases and norms is too small at this model's sizes, where these are known."""
    both = [node.component.each(measure) for measure in (params, major_params)]
    if any(isinstance(number, Polynomial) for number in both) or both[0] == 0:
        return []
    whole, major = map(exact, both)
    share = for_people(Share(whole - major, whole, digits=2), Style())
    return [f"{share} less than the exact {whole:,} of {model.summary}"]
