"""Stacks of layers, which need not be alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.layer import _span
from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.tape.tensor import Tensor


class Group(NamedTuple):
    """Layers that are alike, at these ``places`` of their stack; one of them runs for all ``copies``.

    ``again``: backward computes them again. ``name`` is that of the ``stack``, with what tells it from other groups.
    """

    stack: str
    name: str
    layer: Module
    copies: Num
    places: tuple[int, ...] | None = None
    again: bool = False
    under: int = 0


class Stack(Module):
    """Layers one upon another, a module for each place; ``count`` is how many, as a size (which may be a symbol)."""

    kind = "stack"

    layers: tuple[Module, ...]
    count: Num

    @property
    def groups(self) -> list[Group]:
        """Those that are alike together, in the order of the first of each."""
        found: list[tuple[Module, list[int]]] = []
        for place, layer in enumerate(self.layers):
            same = next((places for known, places in found if known is layer or known == layer), None)
            if same is None:
                found.append((layer, [place]))
            else:
                same.append(place)
        if len(found) == 1:
            return [Group(self.name, self.name, found[0][0], self.count)]
        return [
            Group(self.name, f"{self.name}[{_span(places)}]", layer, len(places), tuple(places))
            for layer, places in found
        ]

    def components(self) -> Iterator[Component]:
        """What its layers hold; they stand in the module that has the stack."""
        for group in self.groups:
            (layer,) = group.layer.components()
            yield layer._replace(name=group.name, copies=group.copies, places=group.places)

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Run its layers from the bottom to the top; it is no module of its own."""
        trace, every = x.trace, ctx.run.every
        if trace.lowers and trace.every_layer:
            groups = [
                Group(self.name, f"{self.name}.{place}", layer, 1, again=bool(every) and place % every == 0)
                for place, layer in enumerate(self.layers)
            ]
        else:
            groups = [each for group in self.groups for each in _unlike(group, every)]
            groups = groups if trace.like_others(x) or not ctx.run.training else [*_first(groups[0]), *groups[1:]]
        for group in groups:
            with trace.group(group):
                x = self._one(group, x, ctx)
        return x

    def _one(self, group: Group, x: Tensor, ctx: Context) -> Tensor:
        def layer(x: Tensor) -> Tensor:
            made = group.layer.forward(x, ctx)
            x.trace.layer_ends()
            return made

        return x.trace.checkpoint(layer, x, early_stop=ctx.run.early_stop) if group.again else layer(x)


def _unlike(group: Group, every: int) -> Iterator[Group]:
    """The layers that backward computes again, one of so many, and the others."""
    if every < 2:
        yield group._replace(again=bool(every))
        return
    again = _first_of_each(group, every)
    yield group._replace(name=f"{group.name}[recomputed]", copies=again, again=True)
    yield group._replace(name=f"{group.name}[not recomputed]", copies=group.copies - again)


def _first_of_each(group: Group, every: int) -> Num:
    """How many of these layers are the first of so many, counted from the bottom of their stack."""
    if group.places is not None:
        return sum(place % every == 0 for place in group.places)
    copies: Num = ceil_div(group.copies, every)
    return copies


def _first(group: Group) -> Iterator[Group]:
    """The first layer by itself, and the others: what it reads needs no gradient, or is kept anyway."""
    yield group._replace(name=f"{group.name}[first]", copies=1, places=(0,))
    yield group._replace(name=f"{group.name}[others]", copies=group.copies - 1, under=1)
