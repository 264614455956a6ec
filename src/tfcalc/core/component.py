"""The tree that every question folds: what stands inside what, how many times, and what each leaf costs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfcalc.core.cost import Cost
from tfcalc.core.number import Num, total

Measure = Callable[[Cost], Num]
"""What a question asks of a single operation; the tree adds it up."""

NOTHING = Cost()


class Component(NamedTuple):
    """A part of a model: an operation (a leaf, with a cost of its own) or a composition of parts.

    ``kind`` is what it is (``attention``, ``ffn``, ``norm``, ``linear``, …), ``name`` which one among its siblings.
    ``copies`` of it stand side by side, each with weights of its own.
    """

    name: str
    kind: str
    own: Cost = NOTHING
    parts: "tuple[Component, ...]" = ()
    copies: Num = 1

    def each(self, measure: Measure) -> Num:
        """One copy: its own cost and that of its parts."""
        return measure(self.own) + total(part.total(measure) for part in self.parts)

    def total(self, measure: Measure) -> Num:
        """All copies together: ``copies · each``."""
        return self.copies * self.each(measure)

    def walk(self) -> "Iterator[Node]":
        """This component and all below it, parents first, each with its place in the whole."""
        return Node((self.name,), self, self.copies).walk()


class Node(NamedTuple):
    """A component at its place: the names that lead to it, and how many of it the whole model has."""

    names: tuple[str, ...]
    component: Component
    copies: Num

    @property
    def path(self) -> str:
        """``core.encoder.layer``: the names from the root, dotted."""
        return ".".join(self.names)

    def total(self, measure: Measure) -> Num:
        """All copies of it that the whole model has: ``copies · each``."""
        return self.copies * self.component.each(measure)

    def below(self) -> "Iterator[Node]":
        """Its parts, at their places."""
        for part in self.component.parts:
            yield Node((*self.names, part.name), part, self.copies * part.copies)

    def walk(self) -> "Iterator[Node]":
        """This node and all below it, parents first."""
        yield self
        for node in self.below():
            yield from node.walk()
