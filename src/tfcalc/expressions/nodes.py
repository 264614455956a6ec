"""Nodes of a formula, and its exact value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from tfcalc.errors import UsageError, nearest

MOST_BITS = 4_096
"""Limit of bits of a numerator or a denominator on the way to a value."""

LARGEST_EXPONENT = 16


@dataclass(frozen=True, slots=True)
class NumberNode:
    """A number as it was written; ``unit`` is ``bytes`` of an amount of memory such as 80GiB."""

    value: Fraction
    text: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A letter, a word or a path; what it means is the caller's matter. ``at`` is its place, counted from 1."""

    name: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class SumNode:
    """Terms that are added."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ProductNode:
    """Factors that are multiplied; a divisor is a factor to the power of -1."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """A whole power, from -16 to 16."""

    base: Expression
    exponent: int


@dataclass(frozen=True, slots=True)
class FloorNode:
    """``⌊h/2⌋``."""

    inside: Expression


@dataclass(frozen=True, slots=True)
class MinimumNode:
    """``min(l, w)``."""

    one: Expression
    other: Expression


Expression = NumberNode | Name | SumNode | ProductNode | Power | FloorNode | MinimumNode


def parts(expression: Expression) -> tuple[Expression, ...]:
    """Direct operands of a node."""
    match expression:
        case SumNode(inside) | ProductNode(inside):
            return inside
        case Power(base, _):
            return (base,)
        case FloorNode(inner):
            return (inner,)
        case MinimumNode(one, other):
            return (one, other)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it."""
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(parts(found))


def names_of(expression: Expression) -> frozenset[str]:
    """Names in a formula."""
    return frozenset(found.name for found in walk(expression) if isinstance(found, Name))


def evaluate(expression: Expression, values: Mapping[str, int | Fraction]) -> int | Fraction:
    """The exact value: an int where it is whole.

    Raises UsageError for a name without a value, a division by 0, and a value of over a thousand digits.

    >>> from tfcalc.expressions import read_formula
    >>> evaluate(read_formula("2h/3 + ⌊h/5⌋", {"h"}), {"h": 512})
    Fraction(1330, 3)
    """
    match expression:
        case NumberNode(value):
            found: int | Fraction = value
        case Name(name):
            if name not in values:
                raise UsageError(f"{name!r} has no value", nearest(name, values))
            found = values[name]
        case SumNode(terms):
            found = 0
            for term in terms:
                found = _bounded(found + evaluate(term, values))
        case ProductNode(factors):
            found = 1
            for factor in factors:
                found = _bounded(found * evaluate(factor, values))
        case Power(base, exponent):
            found = _power(evaluate(base, values), exponent)
        case FloorNode(inside):
            found = floor(evaluate(inside, values))
        case MinimumNode(one, other):
            found = min(evaluate(one, values), evaluate(other, values))
    return found.numerator if found.denominator == 1 else found


def _power(base: int | Fraction, exponent: int) -> int | Fraction:
    if exponent < 0 and base == 0:
        raise UsageError("the formula divides by 0", "give other sizes")
    if bits(base) * abs(exponent) > 2 * MOST_BITS:
        raise _too_large()
    return _bounded(Fraction(base) ** exponent)


def bits(number: int | Fraction) -> int:
    """Bits of a number, its denominator included."""
    return number.numerator.bit_length() + number.denominator.bit_length()


def _bounded(number: int | Fraction) -> int | Fraction:
    if bits(number) > MOST_BITS:
        raise _too_large()
    return number


def _too_large() -> UsageError:
    return UsageError("the formula has a value of over a thousand digits", "is it a typo?")
