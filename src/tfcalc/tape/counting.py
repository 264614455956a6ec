"""The counting trace: builds the tree of components with weights and costs while a model runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from tfcalc.core.component import Component, Cost, Matmul, Weight
from tfcalc.core.number import Num
from tfcalc.core.traced import EFFORT
from tfcalc.named_tuple import NamedTuple
from tfcalc.tape.groups import merged
from tfcalc.tape.memory_tracker import MemoryTracker, Storage
from tfcalc.tape.tensor import INPUTS, NOTHING, Call, Group, MatMul, Part, Shape, Strides, Tensor, Trace, stacked


class ModuleRecord:
    """A module that ran: the costs of its operations, and the records of the modules that it called.

    An operation with a component of its own has no ``part`` and no weights. Equal layers are a ``group``.
    """

    __slots__ = ("costs", "group", "inside", "kind", "name", "part")

    def __init__(self, name: str, kind: str, part: Part | None = None, group: Group | None = None) -> None:
        self.name = name
        self.kind = kind
        self.part = part
        self.group = group
        self.inside: dict[str, ModuleRecord] = {}
        self.costs: list[Cost] = []

    def leaf(self, name: str, kind: str) -> ModuleRecord:
        """Return the record of an operation with a component of its own."""
        return self.inside.setdefault(name, ModuleRecord(name, kind))

    def of(self, part: Part) -> ModuleRecord:
        """Return the record of a module, the same each time that it is called."""
        return self.inside.setdefault(part.name, ModuleRecord(part.name, part.kind, part))

    def of_group(self, group: Group) -> ModuleRecord:
        """Return the record of a group of equal layers."""
        return self.inside.setdefault(group.name, ModuleRecord(group.name, group.layer.kind, group.layer, group))

    def component(self) -> Component:
        """Return its component, with weights, costs and parts.

        If a module runs twice and the second run ends its layer, that run becomes a component ``[last]`` of its own:
        recomputation does not rerun it.
        """
        part, weights = self.part, Cost()
        copies: Num = 1
        active: Num | None = None
        passes: Num = 1
        if part is not None:
            weights, copies, active, passes = part.own_params(), part.copies, part.active, part.passes
        before = [cost for cost in self.costs if not cost.last]
        ending = [cost for cost in self.costs if cost.last]
        own, parts = self.costs, tuple(self._parts())
        if any(cost.products for cost in before) and any(cost.products for cost in ending):
            own = before
            parts = (*parts, Component(f"{self.name}[last]", self.kind, _summed(Cost(), ending)))
        return Component(self.name, self.kind, _summed(weights, own), parts, copies, active, passes)

    def _parts(self) -> Iterator[Component]:
        """Yield the parts in the module's order, each followed by the operations that ran after it.

        A part with weights that did not run is listed, without costs.
        """
        ran: dict[str, list[ModuleRecord]] = {"": []}
        home = ""
        for record in self.inside.values():
            home = record.home or home
            ran.setdefault(home, []).append(record)
        yield from _components(ran.pop(""))
        for part in [] if self.part is None else self.part.parts:
            yield from _components(ran.pop(part.name)) if part.name in ran else part.components()
        for records in ran.values():
            yield from _components(records)

    @property
    def home(self) -> str:
        """Name of the part of the module above that it is; empty for an operation."""
        return self.group.stack if self.group else self.part.name if self.part else ""


def _summed(own: Cost, costs: Iterable[Cost]) -> Cost:
    for cost in costs:
        own = own._replace(
            products=(*own.products, *cost.products),
            elementwise=(*own.elementwise, *cost.elementwise),
            lookups=own.lookups + cost.lookups,
            cached=(*own.cached, *cost.cached),
            again=own.again or cost.again,
            last=own.last or cost.last,
            limit=own.limit if cost.limit is None else cost.limit,
            messages=(*own.messages, *cost.messages),
        )
    return own


def _components(records: Sequence[ModuleRecord]) -> Iterator[Component]:
    """Yield the components of sibling records; equal layers of one stack are merged."""
    layers = {id(record): record.group for record in records if record.group is not None}
    if layers:
        yield from merged(list(layers.values()), [record.component() for record in records if id(record) in layers])
    yield from (record.component() for record in records if record.group is None)


NOWHERE = Storage(MemoryTracker(watch=False), (), "float32", "", counts=False)
"""Storage of all tensors of a trace that does not track memory."""


class Ran(NamedTuple):
    """An operation that has run: its index among its record's costs, and the kind of tensors that it saves."""

    record: ModuleRecord
    place: int
    keeps: str


class Counting(Trace):
    """Builds the tree of components while a model runs."""

    def __init__(self) -> None:
        self.reaches = True
        self.read = True
        self.record = ModuleRecord("", "")
        self.ran: list[Ran] = []
        self.twice = False
        """True while operations run that backward always recomputes."""

    @property
    def gradients(self) -> bool:
        """True if gradients are recorded now (torch.is_grad_enabled)."""
        return self.reaches

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """Run the block without gradients (torch.no_grad)."""
        before, self.reaches = self.reaches, False
        try:
            yield
        finally:
            self.reaches = before

    @contextmanager
    def output_unused(self) -> Iterator[None]:
        """Run a block whose output is unused: it has no backward."""
        self.read = False
        try:
            yield
        finally:
            self.read = True

    @contextmanager
    def again(self) -> Iterator[None]:
        """Run a block that backward always recomputes."""
        before, self.twice = self.twice, True
        try:
            yield
        finally:
            self.twice = before

    @contextmanager
    def inside(self, part: Part) -> Iterator[None]:
        """Run the block as part of this module."""
        outer = self.record
        self.record = outer.of(part)
        try:
            yield
        finally:
            self.record = outer

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """Run the block as these layers of a stack."""
        outer = self.record
        self.record, since = outer.of_group(layers), len(self.ran)
        try:
            yield
        finally:
            self.record = outer
            self._ends(since)

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """Return a weight of the running module."""
        return self._tensor(stacked(weight, copies), reached=self.gradients and not weight.frozen)

    def call(self, call: Call) -> Tensor:
        """Count an operation."""
        EFFORT.spend()
        reached = self.gradients and any(x is not None and x.needs_gradient for x in call.inputs)
        has_backward = reached and self.read
        elementwise, messages = call.elementwise, call.messages
        if not has_backward:
            elementwise = tuple(work._replace(backward=0) for work in elementwise)
            messages = tuple(message._replace(backward=0) for message in messages)
        cost = Cost(
            products=tuple(_product(product, has_backward, again=self.twice) for product in call.products),
            elementwise=elementwise,
            lookups=call.lookups,
            cached=call.cached,
            limit=call.limit,
            messages=messages,
        )
        record = self.record if call.leaf is None else self.record.leaf(*call.leaf)
        self.ran.append(Ran(record, len(record.costs), call.keeps if reached else NOTHING))
        record.costs.append(cost)
        return self._tensor(call.shape, reached=reached)

    def count(self, call: Call) -> None:
        """Count an operation whose result another one makes."""
        self.call(call)

    def _ends(self, since: int) -> None:
        """Mark the operations at the end of a layer after which nothing is saved (``Cost.last``)."""
        for record, place, _ in self._last(since):
            record.costs[place] = record.costs[place]._replace(last=True)

    def _last(self, since: int) -> list[Ran]:
        """Return the operations since ``since`` that recomputation does not reach: it stops at the last saved tensor.

        One that saves inputs alone is among them: these exist before it runs.
        """
        ran = self.ran[since:]
        saving = [place for place, operation in enumerate(ran) if operation.keeps != NOTHING]
        if not saving:
            return ran
        return ran[saving[-1] + (ran[saving[-1]].keeps != INPUTS) :]

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Return a tensor of another shape."""
        return self._tensor(shape, reached=x.needs_gradient)

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Return views of parts of the last axis."""
        return [self._tensor(shape, reached=x.needs_gradient) for shape in shapes]

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Return a new tensor without a gradient."""
        return self._tensor(shape, reached=False)

    given = new

    def reached(self, shape: Shape) -> Tensor:
        """Return an output of another model, which needs a gradient."""
        return self._tensor(shape, reached=self.gradients)

    def data(self, shape: Shape, label: str) -> Tensor:
        """Return an input tensor that needs a gradient."""
        return self.reached(shape)

    def _tensor(self, shape: Shape, *, reached: bool) -> Tensor:
        return Tensor(self, NOWHERE, shape, "float32", reached=reached)


def _product(product: MatMul, reached: bool, *, again: bool) -> Matmul:
    if not reached:
        return Matmul(product.name, product.factors, 0, 0)
    gradients = sum(operand is not None and operand.needs_gradient for operand in product.operands)
    backward = gradients + product.again
    if backward:
        backward += again
    return Matmul(product.name, product.factors, product.used * backward, product.overcounted)
