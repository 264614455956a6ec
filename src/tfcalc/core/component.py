"""The tree of a model's components, with copies and costs: every answer is a sum over it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tfcalc.core.cost import Cost
from tfcalc.core.number import Num, total

NOTHING = Cost()
STORED, ACTIVE, RUN = range(3)
"""Copies of a component that a measure counts: the stored ones, those active per token, or these times their passes.
They differ in a mixture of experts and where layers share weights."""


class Measure:
    """A number of a single operation; the tree adds it up over the copies that ``counts`` names."""

    __slots__ = ("counts", "of")

    def __init__(self, of: Callable[[Cost], Num], counts: int) -> None:
        self.of = of
        self.counts = counts

    def __call__(self, cost: Cost) -> Num:
        """The measure of one operation."""
        return self.of(cost)


class CopyCounts(NamedTuple):
    """Numbers of copies: stored, active per token, and run (active copies times their passes)."""

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
        under: number of layers of other kinds below them in the stack.
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
    def times(self) -> CopyCounts:
        """Copies among its siblings: stored, active per token, run."""
        active = self.copies if self.active is None else self.active
        return CopyCounts(self.copies, active, active * self.passes)

    def each(self, measure: Measure) -> Num:
        """Return the measure of one copy: its own cost plus that of its parts."""
        return measure(self.own) + total(part.total(measure) for part in self.parts)

    def total(self, measure: Measure) -> Num:
        """Return the measure of all copies that it counts: ``copies · each``."""
        return self.times[measure.counts] * self.each(measure)

    def walk(self) -> "Iterator[Node]":
        """Yield this component and all submodules, parents first, each as a node with its path."""
        return self.root().walk()

    def root(self) -> "Node":
        """Return this component as the root of a tree."""
        return Node((self.name,), self, self.times)


class Node(NamedTuple):
    """A component in its tree: the names that lead to it, and the number of copies in the whole model."""

    names: tuple[str, ...]
    component: Component
    times: CopyCounts

    @property
    def path(self) -> str:
        """``core.encoder.layer``: the names from the root, dotted."""
        return ".".join(self.names)

    @property
    def copies(self) -> Num:
        """Number of stored copies in the whole model."""
        return self.times.stored

    def total(self, measure: Measure) -> Num:
        """Return the measure of all its copies in the whole model: ``copies · each``."""
        return self.times[measure.counts] * self.component.each(measure)

    def below(self) -> "Iterator[Node]":
        """Yield its direct parts as nodes."""
        above = self.times
        for part in self.component.parts:
            times = part.times
            in_model = CopyCounts(above.stored * times.stored, above.active * times.active, above.run * times.run)
            yield Node((*self.names, part.name), part, in_model)

    def walk(self) -> "Iterator[Node]":
        """Yield this node and all below it, parents first."""
        yield self
        for node in self.below():
            yield from node.walk()
