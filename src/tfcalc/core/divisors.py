"""What divides a whole number."""

from __future__ import annotations

from math import isqrt

MOST_DIVIDED = 10**9
"""The largest size whose divisors are looked for."""


def divisors(number: int) -> list[int]:
    """In ascending order; 1 alone of a number that is too large to look for them.

    >>> divisors(12), divisors(10**30)
    ([1, 2, 3, 4, 6, 12], [1])
    """
    if number > MOST_DIVIDED:
        return [1]
    low = [each for each in range(1, isqrt(number) + 1) if number % each == 0]
    return sorted({*low, *(number // each for each in low)})
