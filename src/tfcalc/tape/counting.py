"""A trace that counts: which module holds what, calls which operation how often, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tfcalc.core.cost import Cost, Product
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.effort import EFFORT
from tfcalc.core.number import Num
from tfcalc.tape.call import INPUTS, NOTHING, Call, MatMul
from tfcalc.tape.memory_tracker import MemoryTracker, Storage
from tfcalc.tape.record import Record
from tfcalc.tape.tensor import Shape, Strides, Tensor
from tfcalc.tape.trace import Group, Part, Trace, stacked

NOWHERE = Storage(MemoryTracker(watch=False), (), "float32", "", counts=False)
"""The memory of tensors whose memory does not matter."""


class Ran(NamedTuple):
    """An operation that has run: the number ``place`` of its record's, and what it keeps for backward."""

    record: Record
    place: int
    keeps: str


class Counting(Trace):
    """Builds the tree that questions fold, while a model runs."""

    def __init__(self) -> None:
        self.reaches = True
        self.read = True
        self.record = Record("", "")
        self.ran: list[Ran] = []
        self.twice = False
        """Whether backward computes once more what runs now."""

    @property
    def gradients(self) -> bool:
        """Whether backward will come."""
        return self.reaches

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """What runs now is not reached by backward (torch.no_grad)."""
        before, self.reaches = self.reaches, False
        try:
            yield
        finally:
            self.reaches = before

    @contextmanager
    def output_unused(self) -> Iterator[None]:
        """Backward passes what runs now by."""
        self.read = False
        try:
            yield
        finally:
            self.read = True

    @contextmanager
    def again(self) -> Iterator[None]:
        """What runs now is computed once more in backward."""
        before, self.twice = self.twice, True
        try:
            yield
        finally:
            self.twice = before

    @contextmanager
    def inside(self, part: Part) -> Iterator[None]:
        """What runs now belongs to this module."""
        outer = self.record
        self.record = outer.of(part)
        try:
            yield
        finally:
            self.record = outer

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """What runs now are these layers of a stack."""
        outer = self.record
        self.record, since = outer.of_group(layers), len(self.ran)
        try:
            yield
        finally:
            self.record = outer
            self._ends(since)

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """A tensor that the module holds which runs now."""
        return self._made(stacked(weight, copies), reached=self.gradients and not weight.frozen)

    def call(self, call: Call) -> Tensor:
        """Count an operation."""
        EFFORT.spend()
        reached = self.gradients and any(each is not None and each.needs_gradient for each in call.inputs)
        runs_back = reached and self.read
        cost = Cost(
            products=tuple(_product(each, runs_back, again=self.twice) for each in call.products),
            elementwise=call.elementwise
            if runs_back
            else tuple(each._replace(backward=0) for each in call.elementwise),
            lookups=call.lookups,
            cached=call.cached,
            limit=call.limit,
            messages=call.messages if runs_back else tuple(each._replace(backward=0) for each in call.messages),
        )
        record = self.record if call.leaf is None else self.record.leaf(*call.leaf)
        self.ran.append(Ran(record, len(record.costs), call.keeps if reached else NOTHING))
        record.costs.append(cost)
        return self._made(call.shape, reached=reached)

    def count(self, call: Call) -> None:
        """Count an operation whose result something else makes."""
        self.call(call)

    def _ends(self, since: int) -> None:
        """A layer ends: the operations at its end are marked, after which nothing is kept."""
        for record, place, _ in self._last(since):
            record.costs[place] = record.costs[place]._replace(last=True)

    def _last(self, since: int) -> list[Ran]:
        """What has run ``since`` then and behind all that backward needs; what is only read is there before."""
        ran = self.ran[since:]
        kept = [place for place, each in enumerate(ran) if each.keeps != NOTHING]
        if not kept:
            return ran
        return ran[kept[-1] + (ran[kept[-1]].keeps != INPUTS) :]

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Another shape."""
        return self._made(shape, reached=x.needs_gradient)

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Views of parts of the last axis."""
        return [self._made(shape, reached=x.needs_gradient) for shape in shapes]

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """A tensor that nothing is computed from."""
        return self._made(shape, reached=False)

    given = new

    def reached(self, shape: Shape) -> Tensor:
        """A tensor that another model has made, which has a gradient."""
        return self._made(shape, reached=self.gradients)

    def data(self, shape: Shape, label: str) -> Tensor:
        """One that is given, and whose gradient is asked for."""
        return self.reached(shape)

    def _made(self, shape: Shape, *, reached: bool) -> Tensor:
        return Tensor(self, NOWHERE, shape, "float32", reached=reached)


def _product(product: MatMul, reached: bool, *, again: bool) -> Product:
    if not reached:
        return Product(product.name, product.factors, 0, 0)
    operands = sum(each is not None and each.needs_gradient for each in product.operands)
    runs = operands + product.again
    return Product(product.name, product.factors, product.used * (runs + again if runs else 0), product.overcounted)
