"""Layers of a stack that are alike: their names, and which of them are alike in what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from tfcalc.core.component import Component
from tfcalc.tape.trace import Group


def named(stack: str, places: Sequence[int] | None) -> str:
    """The name of these layers: ``layers``, where they are all, or ``layers[0-2,5]``."""
    return stack if places is None else f"{stack}[{span(places)}]"


def span(places: Sequence[int]) -> str:
    """``0-2``, ``3-60``, ``0-45:5`` (every fifth), ``0,2,5-7``.

    >>> span([0, 1, 2, 5]), span([0, 5, 10])
    ('0-2,5', '0-10:5')
    """
    steps = {after - before for before, after in pairwise(places)}
    if len(places) > 2 and len(steps) == 1 and steps != {1}:
        return f"{places[0]}-{places[-1]}:{steps.pop()}"
    runs = [[place for _, place in run] for _, run in groupby(enumerate(places), lambda item: item[1] - item[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def merged(groups: Sequence[Group], made: Sequence[Component]) -> Iterator[Component]:
    """The components that were made of groups of one stack, those that turned out equal as one.

    Layers that differ by a window cost the same unless it is counted: what a model's parts are called depends on what
    tells them apart in the answer, and on no convention.
    """
    alike: list[tuple[Component, list[Group]]] = []
    for group, component in zip(groups, made, strict=True):
        same = next(
            (members for known, members in alike if known == component and members[0].mark == group.mark), None
        )
        if same is None:
            alike.append((component, [group]))
        else:
            same.append(group)
    for component, members in alike:
        first = members[0]
        if first.places is None:
            copies, places = first.copies, None
        else:
            places = tuple(sorted(place for each in members for place in each.places or ()))
            copies = sum(each.copies for each in members)  # type: ignore[misc]  # they have places, so they are numbers
            if isinstance(first.count, int) and len(places) == first.count:
                copies, places = first.count, None
        yield component._replace(
            name=named(first.stack, places) + first.mark, copies=copies, places=places, under=first.under
        )
