"""What a module did when it ran: a tree of records, which becomes the tree of components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.number import Num
from tfcalc.tape.groups import merged
from tfcalc.tape.trace import Group, Part


class Record:
    """A module as it ran: the costs of its operations, and the records of what it called.

    A leaf is an operation that stands in the tree by itself; it is no ``part`` that holds anything. Layers that are
    alike are a ``group``.
    """

    __slots__ = ("costs", "group", "inside", "kind", "name", "part")

    def __init__(self, name: str, kind: str, part: Part | None = None, group: Group | None = None) -> None:
        self.name = name
        self.kind = kind
        self.part = part
        self.group = group
        self.inside: dict[str, Record] = {}
        self.costs: list[Cost] = []

    def leaf(self, name: str, kind: str) -> Record:
        """The record of an operation that stands by itself."""
        return self.inside.setdefault(name, Record(name, kind))

    def of(self, part: Part) -> Record:
        """The record of a module, the same each time that it is called."""
        return self.inside.setdefault(part.name, Record(part.name, part.kind, part))

    def of_group(self, group: Group) -> Record:
        """The record of layers that are alike."""
        return self.inside.setdefault(group.name, Record(group.name, group.layer.kind, group.layer, group))

    def component(self) -> Component:
        """What it holds and costs, and its parts.

        A module that runs twice may end its layer with one of them: backward need not compute that again.
        """
        held = Cost() if self.part is None else self.part.own_params()
        copies, active, passes = (1, None, 1) if self.part is None else self._times(self.part)
        kept, ending = ([each for each in self.costs if each.last is last] for last in (False, True))
        if any(each.products for each in kept) and any(each.products for each in ending):
            last = Component(f"{self.name}[last]", self.kind, _summed(Cost(), ending))
            return Component(self.name, self.kind, _summed(held, kept), (*self._parts(), last), copies, active, passes)
        return Component(self.name, self.kind, _summed(held, self.costs), tuple(self._parts()), copies, active, passes)

    def _times(self, part: Part) -> tuple[Num, Num | None, Num]:
        return part.copies, part.active, part.passes

    def _parts(self) -> Iterator[Component]:
        """In the order in which the module has them, each with the leaves that ran behind it.

        What holds weights and did not run costs nothing, but stands there.
        """
        ran: dict[str, list[Record]] = {"": []}
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
        """The part of the module above that it is; none for a leaf."""
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


def _components(records: Sequence[Record]) -> Iterator[Component]:
    """Those of records that stand side by side; layers of one stack that are alike in what they cost are one."""
    layers = {id(record): record.group for record in records if record.group is not None}
    if layers:
        yield from merged(list(layers.values()), [record.component() for record in records if id(record) in layers])
    yield from (record.component() for record in records if record.group is None)
