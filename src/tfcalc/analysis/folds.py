"""Numbers that are sums over the tree of components: found by a measure, and opened item by item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfcalc.core.component import NOTHING, Component, Measure, Node
from tfcalc.core.number import Num, total
from tfcalc.errors import UsageError
from tfcalc.printable import quoted
from tfcalc.report.report import exact

if TYPE_CHECKING:
    from tfcalc.core.component import Cost
    from tfcalc.core.measure import Item
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.report import Report

Items = Callable[["Cost"], "list[Item]"]
TABLES = ("embedding", "position")
"""Kinds of components that are tables of vectors."""


class Fold:
    """The sum of a ``measure`` over an answer's tree.

    Args:
        quantity: what it counts: params, flops or memory.
        measure: what an operation has of it, and which copies count.
        items: the same one by one, for ``explain``: a function of the answer.
        tables: whether only the tables of tokens and positions count.
    """

    def __init__(self, quantity: str, measure: Measure, items: Callable[[Any], Items], *, tables: bool = False) -> None:
        self.quantity, self.measure, self.items, self.tables = quantity, measure, items, tables

    def __call__(self, answer: Any) -> int:
        """The number."""
        root: Component = answer.question.node.component
        return exact(embedded(root, self.measure) if self.tables else root.total(self.measure))

    def of(self, answer: Any, path: str = "") -> Folded:
        """The items of the whole tree, or of the component at this path."""
        return Folded(self, answer, path)


class Folded(NamedTuple):
    """A fold in an answer: over all of its tree, or at the component of this ``path``."""

    fold: Fold
    answer: Any
    path: str = ""
    sums: bool = True

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation:
        """Item by item. Raises UsageError, as nothing lies behind the items."""
        from tfcalc.analysis.itemized import laid_out, tree_of

        if further:
            raise UsageError(f"{quoted(further[0])} is not in {prefix}, which has no parts", "leave it out")
        fold, answer = self.fold, self.answer
        tree = tree_of(answer.question, fold.quantity, answer.by, fold.items(answer))
        if fold.tables:
            tree = tree._replace(node=only_tables(tree.node), twin=only_tables(tree.twin))
        node, twin = tree.node, tree.twin
        if self.path:
            walks = zip(tree.node.walk(), tree.twin.walk(), strict=True)
            node, twin = next(both for both in walks if both[0].path == self.path)
        return laid_out(prefix, fold.quantity, tree, node, twin, fold.measure.counts, together=True)


def embedded(component: Component, of: Measure) -> Num:
    """The measure of the tables: of tokens, of their types, of positions."""
    own = component.copies * of(component.own) if component.kind in TABLES else 0
    return own + component.copies * total(embedded(part, of) for part in component.parts)


def only_tables(node: Node) -> Node:
    """Return the tree in which only the tables have something."""

    def kept(component: Component) -> Component:
        own = component.own if component.kind in TABLES else NOTHING
        return component._replace(own=own, parts=tuple(map(kept, component.parts)))

    return node._replace(component=kept(node.component))


def of_answer(items: Items) -> Callable[[Report], Items]:
    """Return a function that gives the same items for every answer."""
    return lambda _: items
