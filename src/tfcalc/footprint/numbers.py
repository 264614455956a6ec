"""A tree whose sizes remember their formulas, as a tree of numbers and as one of formulas."""

from __future__ import annotations

from collections.abc import Callable

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.core.traced import formula_of, value_of


def of_numbers(tree: Component) -> Component:
    """The same tree, with ints."""
    return _mapped(tree, value_of)


def of_formulas(tree: Component) -> Component:
    """The same tree, with closed forms."""
    return _mapped(tree, formula_of)


def _mapped(tree: Component, change: Callable[[Num], Num]) -> Component:
    held = tuple(
        item._replace(factors=tuple(change(factor) for factor in item.factors), bits=item.bits)
        for item in tree.own.held
    )
    return tree._replace(
        own=tree.own._replace(held=held),
        parts=tuple(_mapped(part, change) for part in tree.parts),
        copies=change(tree.copies),
        active=None if tree.active is None else change(tree.active),
        passes=change(tree.passes),
    )
