"""How often a number that means nothing would fit a combination as simple as one that was found.

Combinations are many: a number of two figures meets one of them often, a number of nine hardly ever. The combinations
between half and twice the number that are as simple are counted, as values that are evenly spread over that range (of
logarithms); what the number's last figure leaves open of the range is the share that each of them covers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import exp, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfcalc.analysis.why.given import Given, Reading

RANGES = (2.0, 1.1)
"""Values from a part of the number to so many times it are the others that it might have met: of the wide range and of
the narrow one, as many departures change a model's number by little, the one where they are denser."""
LIKELY, SELDOM, RARELY = 0.5, 0.2, 0.05
"""From LIKELY on a match says nothing about its cause, below SELDOM it says something, below RARELY it is evidence."""
ALWAYS = 1.5
"""What departs no further is worth telling, however likely it is by chance."""


class Others:
    """The values that combinations give, near the number: for each, what the simplest of them costs."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._cost: dict[float, float] = {}
        self._sorted: dict[float, list[float]] = {}

    def add(self, value: float, cost: float) -> None:
        """One more combination."""
        at = float(self._given.value)
        if at / RANGES[0] <= value < at * RANGES[0] and cost < self._cost.get(value, cost + 1):
            self._cost[value] = cost

    def chance(self, reading: Reading, cost: float) -> float:
        """The share of numbers, written with as many figures, that fit something as simple: from 0 to 1."""
        each = open_share(self._given.readings, reading)
        wide, narrow = (self._as_simple(width, cost) for width in RANGES)
        dense = max(wide / log(RANGES[0] ** 2), (narrow - 1) / log(RANGES[1] ** 2))
        return 1 - exp(-each * dense)

    def _as_simple(self, width: float, cost: float) -> int:
        """How many of this range are as simple, the one that was found among them."""
        if width not in self._sorted:
            at = float(self._given.value)
            near = (cost for value, cost in self._cost.items() if at / width <= value < at * width)
            self._sorted[width] = sorted(near)
        return bisect_right(self._sorted[width], cost + 1e-9)


def open_share(readings: Iterable[Reading], taken: Reading) -> float:
    """The logarithm of what is read as the number, at most to what is below it: of the readings that cost no more."""
    allowed = [reading for reading in readings if reading.cost <= taken.cost]
    low, high = min(float(one.low) for one in allowed), max(float(one.high) for one in allowed)
    return log((high + 0.5) / (low - 0.5)) if high == low else log(high / low)
