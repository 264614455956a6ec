"""A formula multiplied out: an exact polynomial over a whole number."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd

from tfcalc.core import polynomial as core
from tfcalc.core.polynomial import Atom, Monomial, Polynomial, symbol
from tfcalc.errors import UsageError, nearest
from tfcalc.expressions.nodes import (
    MOST_BITS,
    Expression,
    FloorNode,
    MinimumNode,
    Name,
    NumberNode,
    Power,
    ProductNode,
    SumNode,
)
from tfcalc.named_tuple import NamedTuple

MOST_PRODUCTS = 100_000
"""Limit of products of two terms, in all; a term with a floor or a minimum counts once for each letter inside."""

MOST_LETTERS = 2_000
"""Limit of letters inside of a floor or a minimum."""

HIGHEST_DEGREE = 64
"""Limit of a term's degree, as the sum of the sizes of its exponents."""


class Ratio(NamedTuple):
    """A polynomial over a whole number that shares no factor with it, which is above 0.

    Exponents may be negative, as in ``h/a``.
    """

    top: Polynomial
    bottom: int = 1

    @staticmethod
    def of(top: Polynomial, bottom: int = 1) -> Ratio:
        """Return the fraction in lowest terms.

        >>> h = symbol("h")
        >>> Ratio.of(4 * h, 6)
        Ratio(top=2*h, bottom=3)
        """
        common = gcd(bottom, *top.terms.values()) * (-1 if bottom < 0 else 1)
        if common == 1:
            return Ratio(top, bottom)
        return Ratio(Polynomial({powers: factor // common for powers, factor in top.terms.items()}), bottom // common)

    def __add__(self, other: Ratio) -> Ratio:  # type: ignore[override]  # of numbers, not of tuples
        return self - Ratio(-other.top, other.bottom)

    def __sub__(self, other: Ratio) -> Ratio:
        return Ratio.of(self.top * other.bottom - other.top * self.bottom, self.bottom * other.bottom)

    def times(self, factor: Fraction) -> Ratio:
        """Multiply by a factor."""
        return Ratio.of(self.top * factor.numerator, self.bottom * factor.denominator)


def expanded(expression: Expression, meaning: Mapping[str, Polynomial | str]) -> Ratio:
    """Multiply a formula out, with each name replaced by the letter or polynomial that it means.

    Raises UsageError for a name without meaning, a sum below a fraction line, and a formula that grows too large.

    >>> from tfcalc.expressions import read_formula
    >>> expanded(read_formula("h(2h + 1)/3", "h"), {"h": "h"})
    Ratio(top=2*h^2 + h, bottom=3)
    """
    return _Expansion(meaning).ratio(expression)


class _Expansion:
    def __init__(self, meaning: Mapping[str, Polynomial | str]) -> None:
        self.meaning = meaning
        self.spent = 0
        self.weight = 1

    def ratio(self, expression: Expression) -> Ratio:
        match expression:
            case NumberNode(value):
                return Ratio(Polynomial({(): value.numerator}), value.denominator)
            case Name(name):
                if name not in self.meaning:
                    raise UsageError(f"{name!r} is not known", nearest(name, self.meaning))
                meant = self.meaning[name]
                return Ratio(symbol(meant) if isinstance(meant, str) else meant)
            case SumNode(terms):
                return self.sum([self.ratio(term) for term in terms])
            case ProductNode(factors):
                found = Ratio(Polynomial({(): 1}))
                for factor in factors:
                    found = self.product(found, self.ratio(factor))
                return found
            case Power(base, exponent):
                return self.power(self.ratio(base), exponent)
            case FloorNode(inside):
                return self.floor(inside)
            case MinimumNode(one, other):
                return self.minimum(self.ratio(one), self.ratio(other))

    def sum(self, ratios: list[Ratio]) -> Ratio:
        bottom = 1
        for ratio in ratios:
            bottom = bottom * ratio.bottom // gcd(bottom, ratio.bottom)
            self.check_number(bottom)
        terms: dict[Monomial, int] = {}
        for ratio in ratios:
            self.spend(len(ratio.top.terms))
            for powers, factor in ratio.top.terms.items():
                terms[powers] = terms.get(powers, 0) + factor * (bottom // ratio.bottom)
        return Ratio.of(Polynomial(terms), bottom)

    def product(self, one: Ratio, other: Ratio) -> Ratio:
        self.spend(len(one.top.terms) * len(other.top.terms))
        found = Ratio.of(one.top * other.top, one.bottom * other.bottom)
        self.check_number(found.bottom, *found.top.terms.values())
        if any(sum(abs(power) for _, power in powers) > HIGHEST_DEGREE for powers in found.top.terms):
            raise _too_large()
        return found

    def power(self, base: Ratio, exponent: int) -> Ratio:
        if exponent < 0:
            base = self.inverse(base)
        found = Ratio(Polynomial({(): 1}))
        for _ in range(abs(exponent)):
            found = self.product(found, base)
        return found

    def inverse(self, ratio: Ratio) -> Ratio:
        if not ratio.top.terms:
            raise UsageError("the formula divides by 0", "leave out what is 0")
        if len(ratio.top.terms) > 1:
            raise UsageError("the formula divides by a sum", "multiply out, so that only a product follows a /")
        ((powers, factor),) = ratio.top.terms.items()
        return Ratio.of(Polynomial({tuple((atom, -power) for atom, power in powers): ratio.bottom}), factor)

    def floor(self, inside: Expression) -> Ratio:
        above, below = self.fraction(inside)
        # of (p/q) / (r/s): ⌊ps / qr⌋
        top, bottom = above.top * below.bottom, below.top * above.bottom
        if not bottom.terms:
            raise UsageError("the formula divides by 0", "leave out what is 0")
        if not bottom.free_symbols and bottom.terms[()] < 0:
            top, bottom = -top, -bottom
        self.weigh(top, bottom)
        return Ratio(floored(top, bottom))

    def fraction(self, inside: Expression) -> tuple[Ratio, Ratio]:
        """Numerator and denominator of a product; the denominator may be a sum."""
        above = below = Ratio(Polynomial({(): 1}))
        for factor in inside.factors if isinstance(inside, ProductNode) else (inside,):
            if isinstance(factor, Power) and factor.exponent < 0:
                below = self.product(below, self.power(self.ratio(factor.base), -factor.exponent))
            else:
                above = self.product(above, self.ratio(factor))
        return above, below

    def minimum(self, one: Ratio, other: Ratio) -> Ratio:
        bottom = one.bottom * other.bottom
        left, right = one.top * other.bottom, other.top * one.bottom
        self.weigh(left, right)
        return Ratio.of(smaller(left, right), bottom)

    def spend(self, products: int) -> None:
        self.spent += products * self.weight
        if self.spent > MOST_PRODUCTS:
            raise _too_large()

    def weigh(self, *inside: Polynomial) -> None:
        """A floor or a minimum is as costly to multiply as it is long."""
        length = sum(map(_length, inside))
        if length > MOST_LETTERS:
            raise _too_large()
        self.weight = max(self.weight, length)

    def check_number(self, *numbers: int) -> None:
        if any(number.bit_length() > MOST_BITS for number in numbers):
            raise _too_large()


def floored(top: Polynomial, bottom: Polynomial) -> Polynomial:
    """``⌊top / bottom⌋`` in one form, whichever way the fraction was written: ⌊I/p/2⌋ is ⌊I/(2p)⌋."""
    every = [dict(powers) for number in (top, bottom) for powers in number.terms]
    lowest = {atom: min(powers.get(atom, 0) for powers in every) for powers in every for atom in powers}
    cleared = Polynomial({tuple((atom, -power) for atom, power in lowest.items() if power < 0): 1})
    return (top * cleared) // (bottom * cleared)


def smaller(one: Polynomial, other: Polynomial) -> Polynomial:
    """Minimum in a canonical form, whatever the order of its arguments."""
    return Polynomial.minimum(*sorted((one, other), key=repr))


def settled(number: Polynomial) -> Polynomial:
    """Return the polynomial with every floor and minimum in the form that a read formula has.

    >>> h, p = symbol("h"), symbol("p")
    >>> settled(h / p // 2) == settled(h // (2 * p))
    True
    """
    found = Polynomial({})
    for powers, factor in number.terms.items():
        term = Polynomial({tuple(item for item in powers if isinstance(item[0], str) or item[1] < 0): factor})
        for atom, power in powers:
            if not isinstance(atom, str) and power > 0:
                for _ in range(power):
                    term = term * _settled_atom(atom)
        found = found + term
    return found


def _settled_atom(atom: Atom) -> Polynomial:
    if isinstance(atom, core.Floor):
        divisor = atom.divisor if isinstance(atom.divisor, Polynomial) else Polynomial({(): atom.divisor})
        return floored(settled(atom.dividend), settled(divisor))
    if isinstance(atom, core.Minimum):
        return smaller(settled(atom.one), settled(atom.other))
    return symbol(atom)


def _length(number: Polynomial) -> int:
    """Letters and numbers of a polynomial as it is printed."""
    atoms = [atom for powers in number.terms for atom, _ in powers]
    inside = [part for atom in atoms if not isinstance(atom, str) for part in atom if isinstance(part, Polynomial)]
    return len(number.terms) + len(atoms) + sum(map(_length, inside))


def _too_large() -> UsageError:
    return UsageError("the formula grows too large when it is multiplied out", "use smaller powers or fewer brackets")
