"""The trace of ``tfcalc shapes``: lists each result of a run with its name, shape and work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tfcalc.core.component import Cost, Matmul, Weight
from tfcalc.core.number import Num
from tfcalc.named_tuple import NamedTuple
from tfcalc.tape.counting import Counting
from tfcalc.tape.tensor import Call, Group, Matrices, Part, Shape, Strides, Tensor


class Multiplied(NamedTuple):
    """A matrix product that made a result: its name, such as ``Q Kᵀ``, and the sizes of its matrices if given."""

    name: str
    matrices: Matrices | None


class Result(NamedTuple):
    """A result of an operation.

    Attributes:
        modules: names from the root down to the module, or the component, that ran it.
        name: the papers' name; empty if only its operation has one.
        operation: name of the operation; ``view`` for the same data in another shape.
        reads: shape of the first input that is no weight; None without one.
        shape: shape of the result.
        products: matrix products that made it.
        work: forward cost of these and of elementwise work.
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
    """Counts, and lists the results; of views only those that are named."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: tuple[str, ...] = ()
        self.stored: list[Tensor] = []
        """Weights that were read."""
        self.groups: dict[tuple[str, ...], Group] = {}
        self.results: list[Result] = []
        self.tensors: list[Tensor | None] = []
        """The tensor of each result; None for intermediate results, which are no tensor of the trace."""

    @contextmanager
    def inside(self, part: Part) -> Iterator[None]:
        """Run the block as part of this module."""
        with self._below(part.name), super().inside(part):
            yield

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """Run the block as these layers of a stack."""
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
        """Return a weight of the running module."""
        self.stored.append(super().weight(weight, copies, dtype))
        return self.stored[-1]

    def call(self, call: Call) -> Tensor:
        """Count an operation, and list its intermediate results and its result."""
        result = super().call(call)
        modules = self.modules if call.leaf is None else (*self.modules, call.leaf.name)
        operands = (x for x in (*call.inputs, *call.saves) if x is not None)
        reads = next((x.shape for x in operands if not any(x is weight for weight in self.stored)), None)
        for within in call.within:
            work = _work_of(call, set(within.of))
            self._note(Result(modules, within.name, within.operation or call.name, reads, within.shape, *work), None)
        names = {product.name for product in call.products} | {work.name for work in call.elementwise}
        names -= {name for within in call.within for name in within.of}
        work = _work_of(call, names, lookups=True)
        self._note(Result(modules, call.result, call.name, reads, call.shape, *work), result)
        return result

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Return a tensor of another shape."""
        view = super().view(x, shape, strides)
        self._note(Result(self.modules, "", VIEW, x.shape, shape, (), Cost()), view)
        return view

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Return views of parts of the last axis."""
        views = super().split(x, shapes, strides)
        for view in views:
            self._note(Result(self.modules, "", VIEW, x.shape, view.shape, (), Cost()), view)
        return views

    def called(self, x: Tensor, name: str) -> Tensor:
        """Name the last result that is ``x``; return it."""
        for place in range(len(self.tensors) - 1, -1, -1):
            if self.tensors[place] is x:
                self.results[place] = self.results[place]._replace(name=name)
                break
        return x

    @property
    def named(self) -> list[Result]:
        """The results, without unnamed views."""
        return [result for result in self.results if result.name or result.operation != VIEW]

    def _note(self, result: Result, tensor: Tensor | None) -> None:
        self.results.append(result)
        self.tensors.append(tensor)


def _work_of(call: Call, names: set[str], *, lookups: bool = False) -> tuple[tuple[Multiplied, ...], Cost]:
    """Return a call's products of these names, and the forward cost of them and of elementwise work of these names."""
    products = [product for product in call.products if product.name in names]
    cost = Cost(
        products=tuple(Matmul(product.name, product.factors) for product in products),
        elementwise=tuple(work for work in call.elementwise if work.name in names),
        lookups=call.lookups if lookups else 0,
    )
    return tuple(Multiplied(product.name, product.matrices) for product in products), cost
