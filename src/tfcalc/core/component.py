"""The tree that every question folds: what stands inside what, how many times, and what each leaf costs."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfcalc.core.cost import Cost
from tfcalc.core.number import Num, total

NOTHING = Cost()
STORED, ACTIVE, RUN = range(3)
"""Which copies of a component a question counts: all that are stored, those that a token goes through, each as often
as it is gone through. They differ in a mixture of experts and where layers share their weights."""


class Measure:
    """What a question asks of a single operation; the tree adds it up over the copies that ``counts`` names."""

    __slots__ = ("counts", "of")

    def __init__(self, of: Callable[[Cost], Num], counts: int) -> None:
        self.of = of
        self.counts = counts

    def __call__(self, cost: Cost) -> Num:
        """The measure of one operation."""
        return self.of(cost)


class Times(NamedTuple):
    """How many copies are stored, how many of them a token goes through, how many times in all."""

    stored: Num
    active: Num
    run: Num


class Component(NamedTuple):
    """A part of a model: an operation with a cost of its own, or a composition of parts.

    Attributes:
        name: the name among its siblings.
        kind: ``attention``, ``ffn``, ``norm``, ``linear``, …
        own: the cost of one copy without its parts: tensors and operations.
        parts: the submodules.
        copies: number of identical copies, each with weights of its own.
        active: copies that one token uses; all, except in a mixture of experts.
        passes: how often each copy runs; once, unless layers share their weights.
        places: which layers of a stack these are, where known.
        under: number of layers of other kinds below them.
    """

    name: str
    kind: str
    own: Cost = NOTHING
    parts: "tuple[Component, ...]" = ()
    copies: Num = 1
    active: Num | None = None
    passes: Num = 1
    places: tuple[int, ...] | None = None
    under: int = 0

    @property
    def times(self) -> Times:
        """Copies among its siblings: stored, active per token, run."""
        active = self.copies if self.active is None else self.active
        return Times(self.copies, active, active * self.passes)

    def each(self, measure: Measure) -> Num:
        """The measure of one copy: its own cost and that of its parts."""
        return measure(self.own) + total(part.total(measure) for part in self.parts)

    def total(self, measure: Measure) -> Num:
        """All copies that count, together: ``copies · each``."""
        return self.times[measure.counts] * self.each(measure)

    def walk(self) -> "Iterator[Node]":
        """This component and all submodules, parents first, each as a node with its path."""
        return self.root().walk()

    def root(self) -> "Node":
        """This component as the root of a tree."""
        return Node((self.name,), self, self.times)


class Node(NamedTuple):
    """A component at its place: the names that lead to it, and how many of it the whole model has."""

    names: tuple[str, ...]
    component: Component
    times: Times

    @property
    def path(self) -> str:
        """``core.encoder.layer``: the names from the root, dotted."""
        return ".".join(self.names)

    @property
    def copies(self) -> Num:
        """How many of it are stored."""
        return self.times.stored

    def total(self, measure: Measure) -> Num:
        """All copies of it that the whole model has: ``copies · each``."""
        return self.times[measure.counts] * self.component.each(measure)

    def below(self) -> "Iterator[Node]":
        """Its parts, at their places."""
        for part in self.component.parts:
            its = part.times
            inside = Times(self.times.stored * its.stored, self.times.active * its.active, self.times.run * its.run)
            yield Node((*self.names, part.name), part, inside)

    def walk(self) -> "Iterator[Node]":
        """This node and all below it, parents first."""
        yield self
        for node in self.below():
            yield from node.walk()
