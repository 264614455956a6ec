"""A trace that lists what a model makes while it runs: each result with its name, its shape and its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tfcalc.core.cost import Cost, Product
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.tape.call import Call, Matrices
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Shape, Strides, Tensor
from tfcalc.tape.trace import Group, Part


class Multiplied(NamedTuple):
    """A matrix product that made a result: how it is written, and the sizes of its matrices, where these are said."""

    name: str
    matrices: Matrices | None


class Result(NamedTuple):
    """What an operation has made.

    Attributes:
        modules: names from the root down to the module, or the leaf, that ran it.
        name: what the mathematics calls it; empty for what only its operation names.
        operation: the operation; ``view`` for the same numbers in another shape.
        reads: the shape of the first tensor that it reads and that is no weight; None where it reads none.
        shape: its own.
        products: the matrix products that made it.
        work: the forward pass of these, and of passes over elements.
    """

    modules: tuple[str, ...]
    name: str
    operation: str
    reads: Shape | None
    shape: Shape
    products: tuple[Multiplied, ...]
    work: Cost


VIEW = "view"


class Shaping(Counting):
    """Counts, and lists the results. A view is one where something names it."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: tuple[str, ...] = ()
        self.stored: list[Tensor] = []
        """The weights that were read."""
        self.groups: dict[tuple[str, ...], Group] = {}
        self.results: list[Result] = []
        self.tensors: list[Tensor | None] = []
        """The tensor that each of the results is; None where it is none by itself."""

    @contextmanager
    def inside(self, part: Part) -> Iterator[None]:
        """What runs now belongs to this module."""
        with self._below(part.name), super().inside(part):
            yield

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """What runs now are these layers of a stack."""
        with self._below(layers.name), super().group(layers):
            self.groups[self.modules] = layers
            yield

    @contextmanager
    def _below(self, name: str) -> Iterator[None]:
        outer, self.modules = self.modules, (*self.modules, name)
        try:
            yield
        finally:
            self.modules = outer

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """A tensor that the module holds which runs now."""
        self.stored.append(super().weight(weight, copies, dtype))
        return self.stored[-1]

    def call(self, call: Call) -> Tensor:
        """Count an operation, and note what it makes on the way and in the end."""
        made = super().call(call)
        modules = self.modules if call.leaf is None else (*self.modules, call.leaf.name)
        read = (each for each in (*call.inputs, *call.saves) if each is not None)
        reads = next((each.shape for each in read if not any(each is one for one in self.stored)), None)
        apart = {name for each in call.within for name in each.of}
        for each in call.within:
            self._note(Result(modules, each.name, call.name, reads, each.shape, *_done(call, set(each.of))), None)
        names = ({each.name for each in call.products} | {each.name for each in call.elementwise}) - apart
        self._note(Result(modules, call.result, call.name, reads, call.shape, *_done(call, names, lookups=True)), made)
        return made

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Another shape."""
        made = super().view(x, shape, strides)
        self._note(Result(self.modules, "", VIEW, x.shape, shape, (), Cost()), made)
        return made

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Views of parts of the last axis."""
        made = super().split(x, shapes, strides)
        for each in made:
            self._note(Result(self.modules, "", VIEW, x.shape, each.shape, (), Cost()), each)
        return made

    def called(self, x: Tensor, name: str) -> Tensor:
        """The name of what was made."""
        for place in range(len(self.tensors) - 1, -1, -1):
            if self.tensors[place] is x:
                self.results[place] = self.results[place]._replace(name=name)
                break
        return x

    @property
    def named(self) -> list[Result]:
        """The results, without views that nothing names."""
        return [each for each in self.results if each.name or each.operation != VIEW]

    def _note(self, result: Result, tensor: Tensor | None) -> None:
        self.results.append(result)
        self.tensors.append(tensor)


def _done(call: Call, names: set[str], *, lookups: bool = False) -> tuple[tuple[Multiplied, ...], Cost]:
    """The products of a call that go by these names, and the forward pass of its work that does."""
    products = [each for each in call.products if each.name in names]
    work = Cost(
        products=tuple(Product(each.name, each.factors) for each in products),
        elementwise=tuple(each for each in call.elementwise if each.name in names),
        lookups=call.lookups if lookups else 0,
    )
    return tuple(Multiplied(each.name, each.matrices) for each in products), work
