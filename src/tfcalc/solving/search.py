"""The signs of a difference that has no closed form, and never turns: memory, as a batch, a length or the GPUs grow."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

from tfcalc.analysis.largest import largest
from tfcalc.errors import TfcalcError
from tfcalc.solving.signs import Run, merged

FURTHER = (2, 8, 64)
"""How many times the first size the others are at which it is looked whether the difference rises or falls."""


class Turns(Exception):
    """The difference rises and falls."""


class Unchanged(Exception):
    """The difference is the same at all sizes that were tried."""


def searched(difference: Callable[[int], Fraction], start: int, begin: int, last: int) -> list[Run]:
    """The signs for k from ``begin`` to ``last``, where the difference only rises or only falls; ``start`` is likely.

    A k at which nothing can be evaluated ends them. Raises Unchanged, Turns; TfcalcError where the first has no value.
    """
    seen: dict[int, Fraction] = {}
    ends = [last]

    def at(k: int) -> Fraction:
        if k not in seen:
            seen[k] = difference(k)
        return seen[k]

    first = at(begin)
    rising = 0
    for k in dict.fromkeys([start, *(start * by for by in FURTHER), begin + 1, begin + 2]):
        if begin < k <= last and not rising:
            try:
                rising = (at(k) > first) - (at(k) < first)
            except TfcalcError:
                ends.append(k - 1)
    if not rising:
        raise Unchanged

    def need(place: int, rounded: Callable[[Fraction], int]) -> int:
        k = place + begin - 1
        try:
            return rounded(at(k) * rising)
        except TfcalcError:
            ends.append(k - 1)
            return BEYOND

    def reached(rounded: Callable[[Fraction], int], budget: int, near: int) -> int:
        most = min(ends) - begin + 1
        return largest(lambda place: need(place, rounded), budget, start=near - begin + 1, most=most) + begin - 1

    # of a difference that rises: first all that is below 0, then what is 0, then what is above
    below = reached(floor, -1, start)
    level = reached(ceil, 0, max(below, begin))
    reach = min(ends)
    tried = [seen[k] * rising for k in sorted(seen) if k <= reach]
    if any(one > other for one, other in pairwise(tried)):
        raise Turns
    found = [Run(begin, below, -rising), Run(below + 1, level, 0), Run(level + 1, reach, rising)]
    return merged(run for run in found if run.first <= run.last)


BEYOND = 10**40
"""What stands for the difference where there is none."""
