"""Divisors of a whole number."""

from __future__ import annotations

from math import isqrt

MOST_DIVIDED = 10**9
"""Largest number whose divisors are searched for: 31,623 trial divisions."""


def divisors(number: int) -> list[int]:
    """Return the divisors in ascending order; only 1 for a number above ``MOST_DIVIDED``.

    >>> divisors(12), divisors(10**30)
    ([1, 2, 3, 4, 6, 12], [1])
    """
    if number > MOST_DIVIDED:
        return [1]
    low = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*low, *(number // divisor for divisor in low)})
