"""The values that a size may have: all whole numbers, the multiples of a step, or a few that are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tfcalc.core.divisors import divisors
from tfcalc.dimensions import LARGEST

MOST_TOKENS = 10**18


class Domain(NamedTuple):
    """The sizes k·``step`` for k from ``first`` to ``last``; or those ``listed``, in order, where k counts them.

    ``why`` says why not all whole numbers are among them.
    """

    step: int = 1
    first: int = 1
    last: int = LARGEST
    listed: tuple[int, ...] = ()
    why: str = ""

    def size(self, k: int) -> int:
        """The size of this place."""
        return self.listed[k - 1] if self.listed else k * self.step

    def place(self, size: int) -> int:
        """Where this size stands, or the next below it."""
        if self.listed:
            return max(sum(each <= size for each in self.listed), 1)
        return max(min(size // self.step, self.last), self.first)


FURTHER = (1, 2, 3, 5, 13, 1009)
"""Steps beyond the value of now that are tried; the last is beyond what could be divided by it."""


def domain(now: int | None, fits: Callable[[int], str], related: Iterable[int], most: int = LARGEST) -> Domain:
    """The sizes that fit, found from the value that a size has now: multiples of the smallest step that fits.

    ``fits`` says why a size does not, and nothing where it does. Where no multiples fit beyond the value, only divisors
    of ``related`` sizes can: they are listed.
    """
    if now is None or now < 1:
        return Domain(last=most)
    why = ""
    for step in divisors(now):
        reasons = [reason for further in FURTHER if (reason := fits(now + further * step))][:1]
        if not reasons:
            return Domain(step, _first(step, now, fits), most // step, why=why)
        why = why or reasons[0]
    listed = sorted({size for number in {*related, now} for size in divisors(number) if not fits(size)})
    return Domain(1, 1, len(listed), tuple(listed), why) if listed else Domain(1, 1, 1, (now,), why)


def _first(step: int, now: int, fits: Callable[[int], str]) -> int:
    """The first multiple that fits, of those up to the value that a size has now."""
    low, high = 0, now // step
    if not fits(step):
        return 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return high
