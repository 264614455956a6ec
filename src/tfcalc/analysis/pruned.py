"""Parts of a tree opened together: the tree in which only these have something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.core.component import NOTHING, Component, Node

if TYPE_CHECKING:
    from tfcalc.analysis.itemized import Tree
    from tfcalc.report.explanation import Explanation


def only(root: Node, keeps: Callable[[Node], bool]) -> Node:
    """Return the tree without what is in no part that ``keeps`` accepts; below such a part all of it stays."""

    def kept(node: Node) -> Component:
        if keeps(node):
            return node.component
        return node.component._replace(own=NOTHING, parts=tuple(map(kept, node.below())))

    return root._replace(component=kept(root))


def together(
    target: str, of: str, tree: Tree, keeps: Callable[[Node], bool], counts: int, notes: Sequence[str]
) -> Explanation:
    """Explain all that ``keeps`` accepts, line by line, under the name ``target``."""
    from tfcalc.analysis.itemized import laid_out

    kept = {node.path for node in tree.node.walk() if keeps(node)}
    node, twin = (only(each, lambda part: part.path in kept) for each in (tree.node, tree.twin))
    found = laid_out(target, of, tree, node, twin, counts, together=True)
    return replace(found, notes=(*notes, *found.notes))
