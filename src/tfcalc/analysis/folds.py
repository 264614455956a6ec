"""Numbers that are sums over the tree of components: found by a measure, and opened item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import NOTHING, TABLES, Component, Measure
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.report.report import exact

if TYPE_CHECKING:
    from tfcalc.core.component import Cost, Node
    from tfcalc.core.measure import Item
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.report import Report

Items = Callable[["Cost"], "list[Item]"]


class Chosen(NamedTuple):
    """Components of these ``kinds``, or of all ``but`` some; where ``towers`` count alone, within these.

    Towers are the parts that read images or sounds for a model of text.
    """

    kinds: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    towers: bool = False

    def of(self, root: Component, answer: Any = None) -> Component:
        """Return the tree in which only these have something."""
        names = {part.name for part in answer.question.model.module().beside_text} if self.towers else set()

        def kept(component: Component, within: bool) -> Component:
            within = within or component.name in names
            counts = within and (component.kind in self.kinds or not self.kinds) and component.kind not in self.but
            own = component.own if counts else NOTHING
            return component._replace(own=own, parts=tuple(kept(part, within) for part in component.parts))

        return kept(root, not self.towers)


OF_TABLES, OF_HEAD = Chosen(TABLES), Chosen(("output",))
OF_TOWERS = Chosen(but=TABLES, towers=True)


class Fold:
    """The sum of a ``measure`` over an answer's tree.

    Args:
        quantity: what it counts: params, flops or memory.
        measure: what an operation has of it, and which copies count.
        items: the same one by one, for ``explain``: a function of the answer.
        only: which components count; all, where it is left out.
    """

    def __init__(
        self, quantity: str, measure: Measure, items: Callable[[Any], Items], *, only: Chosen | None = None
    ) -> None:
        self.quantity, self.measure, self.items, self.only = quantity, measure, items, only

    def __call__(self, answer: Any) -> int:
        """The number."""
        root: Component = answer.question.node.component
        return exact((self.only.of(root, answer) if self.only else root).total(self.measure))

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
        if fold.only:
            node = tree.node._replace(component=fold.only.of(tree.node.component, answer))
            tree = tree._replace(
                node=node, twin=tree.twin._replace(component=fold.only.of(tree.twin.component, answer))
            )
        node, twin = tree.node, tree.twin
        if self.path:
            node, twin = next(_at(self.path, node, twin))
        return laid_out(prefix, fold.quantity, tree, node, twin, fold.measure.counts, together=True)


def _at(path: str, node: Node, twin: Node) -> Iterator[tuple[Node, Node]]:
    """Yield what is at this path of a tree, and the same of its twin; no other branch is looked into."""
    if node.path == path:
        yield node, twin
    for part, twin_of_part in zip(node.below(), twin.below(), strict=True):
        if f"{path}.".startswith(f"{part.path}."):
            yield from _at(path, part, twin_of_part)


def of_answer(items: Items) -> Callable[[Report], Items]:
    """Return a function that gives the same items for every answer."""
    return lambda _: items
