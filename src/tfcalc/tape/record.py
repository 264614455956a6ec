"""Records of a run: one for each module that ran, which together become the tree of components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.number import Num
from tfcalc.tape.groups import merged
from tfcalc.tape.trace import Group, Part


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
