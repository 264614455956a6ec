"""Arithmetic that a formula may use on a dimension, whatever kind of number it is.

A formula is plain Python over ``+ - *`` and the helpers below. Given ints it answers with an exact int,
given numpy arrays with a whole sweep, given symbols (tfcalc's own :class:`~tfcalc.core.polynomial.Polynomial`
or sympy's) with its closed form. There is no ``<`` here: an ``if`` looks at structure, never at a dimension.

The module also has the numbers of query-key pairs that the products of attention run over, by kind of mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import isqrt
from operator import add, mul
from typing import Any, Protocol

from tfcalc.named_tuple import NamedTuple


class Num(Protocol):
    """A dimension or a count: int, numpy array, Polynomial or sympy expression."""

    def __add__(self, other: Any, /) -> Num: ...
    def __radd__(self, other: Any, /) -> Num: ...
    def __sub__(self, other: Any, /) -> Num: ...
    def __rsub__(self, other: Any, /) -> Num: ...
    def __mul__(self, other: Any, /) -> Num: ...
    def __rmul__(self, other: Any, /) -> Num: ...


def total(numbers: Iterable[Num]) -> Num:
    """The sum of the numbers; 0 if there are none."""
    left = iter(numbers)
    return reduce(add, left, next(left, 0))


def product(numbers: Iterable[Num]) -> Num:
    """The product of the numbers; 1 if there are none.

    >>> product([2, 3, 7])
    42
    """
    left = iter(numbers)
    return reduce(mul, left, next(left, 1))


def divide(whole: Any, parts: Any) -> Any:
    """``whole / parts`` where the model guarantees that it divides (``head_dim = d_model / n_heads``).

    >>> divide(512, 8)
    64
    """
    return whole / parts if hasattr(parts, "free_symbols") else whole // parts


def beyond(length: Num, most: int) -> Num:
    """1 where a sequence is longer than ``most``, else 0.

    >>> beyond(4, 4), beyond(5, 4), beyond(50, 4)
    (0, 1, 1)
    """
    longer: Num = minimum(1, floor_div(length, most + 1))
    return longer


def ceil_div(whole: Any, size: Any) -> Any:
    """Number of pieces of ``size`` that cover ``whole``: ``⌈whole / size⌉``.

    >>> ceil_div(7, 2)
    4
    """
    return (whole + (size - 1)) // size


def floor_div(whole: Any, size: Any) -> Any:
    """``⌊whole / size⌋``.

    >>> floor_div(7, 2)
    3
    """
    return whole // size


def scaled(whole: Any, factor: float) -> Any:
    """``int(factor · whole)`` for a factor such as 2.667, rounded towards zero like Python's ``int``.

    >>> scaled(768, 2.667)
    2048
    """
    if isinstance(whole, int):
        return int(factor * whole)
    from decimal import Decimal  # rarely needed, and half a millisecond

    numerator, denominator = Decimal(str(factor)).as_integer_ratio()
    return whole * numerator if denominator == 1 else whole * numerator // denominator


def minimum(left: Any, right: Any) -> Any:
    """The smaller of two sizes, whatever kind of number they are.

    >>> minimum(3, 5)
    3
    """
    if hasattr(left, "minimum"):
        return left.minimum(right)
    if hasattr(right, "minimum"):
        return right.minimum(left)
    return divide(left + right - abs(left - right), 2)  # of ints, and of arrays, which have no ``<`` here


def same(left: object, right: object) -> bool:
    """Return whether two values, or nested tuples of values, are equal, whatever kinds of number are in them.

    >>> same((2, ("a", 3)), (2, ("a", 3))), same(2, 3)
    (True, False)
    """
    if left is right:
        return True
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    equal = left == right
    return equal if isinstance(equal, bool) else bool(equal.all())  # arrays: equal in all elements


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


class Pairs(NamedTuple):
    """The query-key pairs of a batch, for one head.

    The factors ``twice`` multiply to twice the number of pairs, so that l²/2 stays whole. ``scores`` is the number that
    the softmax runs over: all that are computed, as a mask does not shorten a row. ``fused`` kernels save no scores, so
    their backward pass recomputes Q Kᵀ. ``limit`` is the window or chunk of a causal mask. ``keys`` is the length of a
    row of scores if all rows have the same.
    """

    twice: tuple[Num, ...]
    scores: Num
    fused: bool = False
    limit: Num | None = None
    keys: Num | None = None


def twice_sliding(length: Num, window: Num) -> Num:
    """Twice the pairs if a query sees its own key and the ``window`` − 1 before it.

    The first m = min(l, w) queries see 1, 2, …, m keys, the others w each: ``m(m + 1) + 2w(l − m)``.

    >>> twice_sliding(5, 2), twice_sliding(5, 9)
    (18, 30)
    """
    first: Num = minimum(length, window)
    return first * (first + 1) + 2 * window * (length - first)


def in_pieces(length: Num, size: Num) -> Num:
    """Pairs within pieces of ``size``, into which a sequence is cut: Σ c², the last piece shorter.

    >>> in_pieces(5, 2)
    9
    """
    whole: Num = floor_div(length, size)
    rest = length - size * whole
    return whole * (size * size) + rest * rest


def twice_chunked(length: Num, chunk: Num) -> Num:
    """Twice the pairs if a query sees the keys of its chunk up to its own: Σ c(c + 1), the last chunk shorter.

    >>> twice_chunked(5, 2)
    14
    """
    whole: Num = floor_div(length, chunk)
    rest = length - chunk * whole
    return whole * (chunk * (chunk + 1)) + rest * (rest + 1)
