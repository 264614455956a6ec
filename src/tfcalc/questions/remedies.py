"""Which changes make a step fit: each by itself, or else two together, or else what comes closest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from tfcalc.questions.changes import Change, Group

LISTED, PAIRS = 6, 3
"""So many changes are listed at most, or so many pairs where no change is enough."""
TRIED = 60
"""So many pairs are tried at most."""

Need = Callable[[Change], int | None]
"""The bytes with a change; None where it does not go with the rest."""


class Remedy(NamedTuple):
    """A change, and the bytes of the peak with it."""

    change: Change
    total: int


def remedies(groups: Sequence[Group], need: Need, budget: int) -> list[Remedy]:
    """The smallest single changes that fit; where none does, pairs; where no pair does, the one that comes closest.

    Of a group (the same change by degrees) the smallest that fits stands for all.
    """
    tried: list[Remedy] = []
    single = [
        found for group in groups if (found := _first(_needed(group, need, tried), budget)) is not None
    ]
    if single:
        return single[:LISTED]
    pairs = []
    for remedy in _needed(_pairs(groups, need, budget), need, tried):
        if remedy.total <= budget:
            pairs.append(remedy)
        if len(pairs) == PAIRS:
            break
    return pairs or sorted(tried, key=lambda remedy: remedy.total)[:1]


def _needed(changes: Iterator[Change] | Group, need: Need, tried: list[Remedy]) -> Iterator[Remedy]:
    for change in changes:
        total = need(change)
        if total is not None:
            tried.append(Remedy(change, total))
            yield tried[-1]


def _first(found: Iterator[Remedy], budget: int) -> Remedy | None:
    return next((remedy for remedy in found if remedy.total <= budget), None)


def _pairs(groups: Sequence[Group], need: Need, budget: int) -> Iterator[Change]:
    """Two of different groups, the pair with the smaller larger one first.

    Of a group only the last, which is the furthest, is paired. What does not fit even with all that a step adds made
    as small as it can be is paired with nothing that only makes a step smaller.
    """
    last = [group[-1] for group in groups]
    transient = [change for change in last if change.transient]
    bounds: dict[str, bool] = {}

    def hopeful(change: Change) -> bool:
        """Whether it fits with all transient changes that go with it."""
        if change.name not in bounds:
            least = change
            for other in transient:
                if least.goes_with(other):
                    least += other
            total = need(least)
            bounds[change.name] = total is None or total <= budget
        return bounds[change.name]

    count = 0
    ordered = sorted(combinations(range(len(last)), 2), key=lambda pair: (pair[1], pair[0]))
    for one, other in ((last[i], last[j]) for i, j in ordered):
        if count == TRIED:
            return
        if not one.goes_with(other):
            continue
        if (one.transient and not hopeful(other)) or (other.transient and not hopeful(one)):
            continue
        count += 1
        yield one + other
