"""Layers of these parts, and stacks of layers that need not be alike."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import residual
from tfcalc.tape.groups import span

Kind = TypeVar("Kind", bound=Hashable)
STORED = ("parameter", "buffer")
NO_RESIDUAL = ("norm", "dropout", *STORED)


def layer(
    name: str, parts: Iterable[Component], elements: Num, copies: Num = 1, *, ends_with_sum: bool = False
) -> Component:
    """A layer of these parts, by a checkpoint's names; each that is no norm is added to the stream (``elements``).

    ``ends_with_sum``: the sum of the last of them with the stream is the layer's output, so that nothing is saved after
    its last product; otherwise a norm, dropout or a gate follows.
    """
    given = list(parts)
    mixers = [place for place, part in enumerate(given) if part.kind not in NO_RESIDUAL]
    if ends_with_sum and mixers:
        given[mixers[-1]] = ending(given[mixers[-1]])
    sublayers: list[Component] = []
    for part in given:
        sublayers.append(part)
        if part.kind not in NO_RESIDUAL:
            sublayers.append(residual(f"{part.name}.residual", elements))
    return Component(name, "layer", parts=tuple(sublayers), copies=copies)


def ending(part: Component) -> Component:
    """The same, its last operation marked as the last of its layer; not where experts are weighted and summed."""
    if part.parts:
        last = max((place for place, inside in enumerate(part.parts) if inside.kind not in STORED), default=0)
        if part.kind == "experts" or part.parts[last].kind == "experts":
            return part
        return part._replace(parts=(*part.parts[:last], ending(part.parts[last]), *part.parts[last + 1 :]))
    return part._replace(own=part.own._replace(last=True)) if part.own.products else part


def stack(name: str, kinds: Sequence[Kind], count: Num, make: Callable[[Kind], Component]) -> Iterator[Component]:
    """Layers one upon another, ``make(kind)`` for each; those of a kind are one component with so many copies.

    ``count`` is the number of ``kinds`` as a size, so that a stack of equal layers has a symbol for it. Groups are
    named by the layers that they hold: ``layers[0-2]``, ``layers[3-60]``.
    """
    groups: dict[Kind, list[int]] = {}
    for place, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(place)
    for kind, places in groups.items():
        made = make(kind)
        alone = len(groups) == 1
        if alone:
            yield made._replace(name=name, copies=count)
        else:
            yield made._replace(name=f"{name}[{span(places)}]", copies=len(places), places=tuple(places))
