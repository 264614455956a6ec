"""Groups of equal layers of a stack: their names, and which groups are merged into one component."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.number import same, total

if TYPE_CHECKING:
    from tfcalc.tape.tensor import Group  # a tree that names its layers needs no tape


def named(stack: str, places: Sequence[int] | None) -> str:
    """Return the name of these layers: ``layers`` if they are all, or ``layers[0-2,5]``."""
    return stack if places is None else f"{stack}[{span(places)}]"


def span(places: Sequence[int]) -> str:
    """Format layer numbers: ``0-2``, ``3-60``, ``0-45:5`` (every fifth), ``0,2,5-7``.

    >>> span([0, 1, 2, 5]), span([0, 5, 10])
    ('0-2,5', '0-10:5')
    """
    steps = {after - before for before, after in pairwise(places)}
    if len(places) > 2 and len(steps) == 1 and steps != {1}:
        return f"{places[0]}-{places[-1]}:{steps.pop()}"
    runs = [[place for _, place in run] for _, run in groupby(enumerate(places), lambda item: item[1] - item[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def merged(groups: Sequence[Group], components: Sequence[Component]) -> Iterator[Component]:
    """Yield the components of groups of one stack, equal ones merged.

    Layers that differ by a window, for example, cost the same unless the window is counted: then they are one
    component, so a tree shows only the differences that matter for its answer.
    """
    distinct: list[tuple[Component, list[Group]]] = []
    for group, component in zip(groups, components, strict=True):
        unnamed = component._replace(name="")
        for known, members in distinct:
            if same(known, unnamed) and (members[0].mark, members[0].apart) == (group.mark, group.apart):
                members.append(group)
                break
        else:
            distinct.append((unnamed, [group]))
    for component, members in distinct:
        first, all_with_mark = members[0], [group for group in groups if group.mark == members[0].mark]
        whole = len(members) == len(all_with_mark) and not first.mark
        places = None if whole else together(members)
        copies = first.depth if whole and len(members) > 1 else total(group.copies for group in members)
        name = named(first.stack, places) + first.mark
        yield component._replace(name=name, copies=copies, places=places, under=first.under)


def together(groups: Sequence[Group]) -> tuple[int, ...] | None:
    """Return the layer numbers of these groups; None: all."""
    if any(group.places is None for group in groups):
        return None
    return tuple(sorted(place for group in groups for place in group.places or ()))


def apart(numbers: Component, forms: Component) -> Component:
    """Split merged layers in the tree of ``numbers`` as they are split in the same tree of closed ``forms``.

    Layers whose closed forms differ may have the same numbers: ``global_head_dim`` may equal ``head_dim``, and widths
    may be rounded to the same one.
    """
    if len(numbers.parts) == len(forms.parts):
        pairs = zip(numbers.parts, forms.parts, strict=True)
    else:
        known = {(*_stack_and_mark(part), place): part for part in numbers.parts for place in part.places or (None,)}
        whole = {key[:2]: part for key, part in known.items() if key[2] is None}
        keys = [(*_stack_and_mark(part), (part.places or (None,))[0]) for part in forms.parts]
        pairs = zip((known.get(key) or whole[key[:2]] for key in keys), forms.parts, strict=True)
    parts = tuple(_one_of(*pair) for pair in pairs)
    same_parts = len(parts) == len(numbers.parts) and all(map(operator.is_, parts, numbers.parts))
    return numbers if same_parts else numbers._replace(parts=parts)


def _one_of(numbers: Component, forms: Component) -> Component:
    """Return the component of numbers for one of forms, with the copies and places of that one."""
    inside = apart(numbers, forms)
    if numbers.name == forms.name:
        return inside
    return inside._replace(name=forms.name, copies=forms.copies, places=forms.places, under=forms.under)


def _stack_and_mark(layers: Component) -> tuple[str, str]:
    """Return the name of the layers' stack, and their mark."""
    stack = layers.name.partition("[")[0]
    return stack, layers.name.removeprefix(named(stack, layers.places))
