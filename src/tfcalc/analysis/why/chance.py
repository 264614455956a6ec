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

RANGE = 2
"""Values from 1/RANGE of the number to RANGE times it are the others that it might have met."""
LIKELY, RARELY = 0.5, 0.05
"""From LIKELY on a match says nothing about its cause, below RARELY it is evidence."""
ALWAYS = 1.5
"""What departs no further is worth telling, however likely it is by chance."""


class Others:
    """The values that combinations give, near the number: for each, what the simplest of them costs."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._low, self._high = float(given.value) / RANGE, float(given.value) * RANGE
        self._cost: dict[float, float] = {}
        self._sorted: list[float] = []

    def add(self, value: float, cost: float) -> None:
        """One more combination."""
        if self._low <= value < self._high and cost < self._cost.get(value, cost + 1):
            self._cost[value] = cost
            self._sorted = []

    def chance(self, reading: Reading, cost: float) -> float:
        """The share of numbers, written with as many figures, that fit something as simple: from 0 to 1."""
        if not self._sorted:
            self._sorted = sorted(self._cost.values())
        as_simple = bisect_right(self._sorted, cost + 1e-9)
        each = open_share(self._given.readings, reading) / log(RANGE * RANGE)
        return 1 - exp(-as_simple * each)


def open_share(readings: Iterable[Reading], taken: Reading) -> float:
    """The logarithm of what is read as the number, at most to what is below it: of the readings that cost no more."""
    allowed = [reading for reading in readings if reading.cost <= taken.cost]
    low, high = min(float(one.low) for one in allowed), max(float(one.high) for one in allowed)
    return log((high + 0.5) / (low - 0.5)) if high == low else log(high / low)
