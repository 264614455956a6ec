"""Where a polynomial is below, at and above 0 on the whole numbers.

Between two places where its difference p(k + 1) - p(k) changes sign, a polynomial only rises or only falls, so that
halving finds where it changes its own sign. The difference is a polynomial of a lower degree, whose signs are found in
the same way. So nothing is overlooked, and all of it is computed in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import NamedTuple


class Run(NamedTuple):
    """The whole numbers from ``first`` to ``last``, at each of which there is the same ``sign``: -1, 0 or 1."""

    first: int
    last: int
    sign: int


def runs(factors: Sequence[int], first: int, last: int) -> list[Run]:
    """The signs of a polynomial on the whole numbers from ``first`` to ``last``; its factors begin with the constant.

    >>> runs([-12, 1, 1], 1, 10)  # k² + k - 12 = (k - 3)(k + 4)
    [Run(first=1, last=2, sign=-1), Run(first=3, last=3, sign=0), Run(first=4, last=10, sign=1)]
    """
    factors = _trimmed(factors)
    if first > last:
        return []
    if len(factors) <= 1:
        return [Run(first, last, _sign(factors[0] if factors else 0))]

    def sign(k: int) -> int:
        return _sign(value(factors, k))

    if first == last:
        return [Run(first, last, sign(first))]
    turns = runs(_difference(factors), first, last - 1)
    return merged(each for turn in turns for each in monotone(sign, turn.first, turn.last + 1))


def monotone(sign: Callable[[int], int], first: int, last: int) -> list[Run]:
    """The signs of a function that only rises, or only falls, from ``first`` to ``last``."""
    found = []
    while first <= last:
        here, low, high = sign(first), first, last
        if sign(last) == here:
            low = last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if sign(middle) == here else (low, middle)
        found.append(Run(first, low, here))
        first = low + 1
    return found


def value(factors: Sequence[int], k: int) -> int:
    """The polynomial's value."""
    found = 0
    for factor in reversed(factors):
        found = found * k + factor
    return found


def merged(found: Iterable[Run]) -> list[Run]:
    """Runs that touch or overlap and have the same sign become one."""
    together: list[Run] = []
    for run in found:
        before = together[-1] if together else None
        if before and before.last >= run.last:
            continue
        if before and before.sign == run.sign:
            together[-1] = before._replace(last=run.last)
        else:
            together.append(run._replace(first=max(run.first, before.last + 1)) if before else run)
    return together


def _difference(factors: Sequence[int]) -> list[int]:
    """Of p(k + 1) - p(k)."""
    degree = len(factors) - 1
    return [sum(factors[n] * comb(n, power) for n in range(power + 1, degree + 1)) for power in range(degree)]


def _trimmed(factors: Sequence[int]) -> list[int]:
    found = list(factors)
    while found and not found[-1]:
        found.pop()
    return found


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
