"""A tree of tensors that are held, as the breakdown of an answer in bytes."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_held, of_formulas, of_numbers
from tfcalc.report import Entry, breakdown


def memory_breakdown(tree: Component, depth: int | None) -> tuple[Entry, frozenset[str]]:
    """The entries of a tree whose sizes remember their formulas, and the letters of these.

    ``depth`` is how deep the answer goes; with None layers and what is like them stay whole.
    """
    numbers, formulas = of_numbers(tree).root(), of_formulas(tree).root()
    whole = breakdown(numbers, formulas, bytes_held, {"bytes": bytes_held}, inside_blocks=depth is not None)
    return whole, frozenset[str]().union(*(part.formula.free_symbols for part in whole.walk()))
