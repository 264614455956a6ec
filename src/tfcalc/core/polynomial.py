"""Closed forms without sympy: polynomials with exact coefficients over named symbols.

Evaluating the tree over these costs microseconds, so every table row can show its formula while
``import tfcalc`` stays light (sympy alone takes longer to import than tfcalc takes to answer). They are one
of the kinds of number a formula accepts, see :mod:`tfcalc.core.number`; a law test holds them against sympy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import gcd
from typing import Any

from tfcalc.core.number import Num, divide, floor_div, minimum
from tfcalc.named_tuple import NamedTuple


class Floor(NamedTuple):
    """The remainder of a division that may not be exact: ``⌊dividend / divisor⌋``.

    ``name`` distinguishes it from the minimum of the same two, as tuples are equal by their items.
    """

    dividend: Polynomial
    divisor: Polynomial | int
    name: str = "floor"


class Minimum(NamedTuple):
    """The smaller of two polynomials whose order depends on their symbols: ``min(l, w)``."""

    one: Polynomial
    other: Polynomial
    name: str = "min"


Atom = str | Floor | Minimum
"""A symbol, by its letter, a floor, or a minimum."""

Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their exponents (never 0), in one fixed order."""


class Polynomial:
    """A sum of integer coefficients times monomials; exponents may be negative (``h/a``).

    >>> h, f = symbols("h f")
    >>> (h * f + f) + (f * h + h) == 2 * h * f + h + f
    True
    >>> ((2 * h + 1) * h).at({"h": 10})
    210
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = {powers: factor for powers, factor in terms.items() if factor}

    @property
    def free_symbols(self) -> frozenset[str]:
        """The letters that occur in it, those under a floor included."""
        return frozenset(letter for powers in self.terms for atom, _ in powers for letter in letters_of(atom))

    def __add__(self, other: Polynomial | int) -> Polynomial:
        terms = dict(self.terms)
        for powers, factor in _terms(other):
            terms[powers] = terms.get(powers, 0) + factor
        return Polynomial(terms)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        if isinstance(other, int):
            return Polynomial({powers: factor * other for powers, factor in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for powers, factor in self.terms.items():
            for other_powers, other_factor in other.terms.items():
                both = _times(powers, other_powers)
                terms[both] = terms.get(both, 0) + factor * other_factor
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + other * -1

    def __rsub__(self, other: Polynomial | int) -> Polynomial:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Polynomial) -> Polynomial:
        """Divide by a single monomial whose coefficient divides all others, as in ``h / a``; no more is needed."""
        ((powers, factor),) = other.terms.items()
        if any(number % factor for number in self.terms.values()):
            raise ValueError(f"{self!r} cannot be divided evenly by {other!r}")
        quotient = Polynomial({monomial: number // factor for monomial, number in self.terms.items()})
        return quotient * Polynomial({tuple((atom, -power) for atom, power in powers): 1})

    def __rtruediv__(self, other: int) -> Polynomial:
        return Polynomial({(): other}) / self

    def __floordiv__(self, divisor: Polynomial | int) -> Polynomial:
        """Divide the terms that are divisible; the rest stays under a floor: ``(4h² + h) // 2 == 2h² + ⌊h/2⌋``.

        By a symbol: ``(h·k + h) // k == h + ⌊h/k⌋``. By a sum everything stays under the floor.
        """
        if isinstance(divisor, Polynomial):
            return self._floored_by(divisor) if divisor.free_symbols else self // divisor.terms.get((), 0)
        even = Polynomial({powers: factor // divisor for powers, factor in self.terms.items()})
        rest = Polynomial({powers: factor % divisor for powers, factor in self.terms.items()})
        if not rest.free_symbols:  # a constant below the divisor
            return even
        common = gcd(divisor, *rest.terms.values())  # ⌊4h/16⌋ is ⌊h/4⌋
        rest = Polynomial({powers: factor // common for powers, factor in rest.terms.items()})
        return even + Polynomial({((Floor(rest, divisor // common), 1),): 1})

    def __rfloordiv__(self, other: int) -> Polynomial:
        return Polynomial({(): other}) // self

    def _floored_by(self, divisor: Polynomial) -> Polynomial:
        taken: dict[Monomial, int] = {}
        if len(divisor.terms) == 1:
            ((below, by),) = divisor.terms.items()
            under = tuple((atom, -power) for atom, power in below)
            for powers, factor in self.terms.items():
                quotient = _times(powers, under)
                if factor % by == 0 and all(power > 0 for _, power in quotient):
                    taken[quotient] = factor // by
        even = Polynomial(taken)
        rest = self - even * divisor
        if rest == -1 and len(divisor.terms) == 1:  # ⌊-1/k⌋ is -1, as a size is at least 1
            return even - 1
        return even + Polynomial({((Floor(rest, divisor), 1),): 1}) if rest.terms else even

    def minimum(self, other: Polynomial | int) -> Polynomial:
        """Return the smaller of the two; if their difference is a number it decides, else a Minimum remains.

        >>> l, w = symbols("l w")
        >>> l.minimum(l + 3) == l, l.minimum(w).at({"l": 5, "w": 2})
        (True, 2)
        """
        other = other if isinstance(other, Polynomial) else Polynomial({(): other})
        difference = self - other
        if not difference.free_symbols:
            return self if difference.terms.get((), 0) <= 0 else other
        return Polynomial({((Minimum(self, other), 1),): 1})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            other = Polynomial({(): other})
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        """Return ``4*h^2 + 4*h``, for debugging; :mod:`tfcalc.core.notation` prints as textbooks do."""
        terms = []
        for powers, factor in self.terms.items():
            atoms = [f"{atom}" if power == 1 else f"{atom}^{power}" for atom, power in powers]
            terms.append("*".join(atoms if factor == 1 and atoms else [f"{factor}", *atoms]))
        return " + ".join(terms) or "0"

    def at(self, values: Mapping[str, Num]) -> Any:
        """Evaluate at the given values of symbols: ints give the exact int, arrays an array.

        A symbol without a value stays a symbol, so a part of them can be substituted.
        """
        result: Num = 0
        for powers, factor in self.terms.items():
            term: Num = factor
            for atom, power in sorted(powers, key=_power, reverse=True):  # multiply first, so that // is exact
                value = _value(atom, values)
                for _ in range(abs(power)):
                    term = term * value if power > 0 else _divided(term, value)
            result = result + term
        return result


def symbols(letters: str) -> tuple[Polynomial, ...]:
    """Return one polynomial per letter.

    >>> l, b = symbols("l b")
    >>> l * b == b * l
    True
    """
    return tuple(symbol(letter) for letter in letters.split())


@cache
def symbol(letter: str) -> Polynomial:
    """The polynomial that is this one symbol."""
    return Polynomial({((letter, 1),): 1})


def _terms(number: Polynomial | int) -> Iterator[tuple[Monomial, int]]:
    return iter(number.terms.items() if isinstance(number, Polynomial) else [((), number)])


@cache
def _times(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(((atom, power) for atom, power in powers.items() if power), key=_order))


def letters_of(atom: Atom) -> frozenset[str]:
    """Return the letters that occur in an atom."""
    if isinstance(atom, str):
        return frozenset((atom,))
    parts = (part for part in atom if isinstance(part, Polynomial))
    return frozenset().union(*(part.free_symbols for part in parts))


def _power(item: tuple[Atom, int]) -> int:
    return item[1]


def _order(item: tuple[Atom, int]) -> tuple[bool, str]:
    """Sort symbols before floors, and these by what they are: equal ones alike, however their terms were added up."""
    atom, _ = item
    return (False, atom) if isinstance(atom, str) else (True, _spelled(atom))


@cache
def _spelled(atom: Floor | Minimum) -> str:
    """Characters that are the same for equal atoms."""
    return f"{atom.name}({', '.join(_sorted_terms(part) for part in atom[:2])})"


def _sorted_terms(number: Polynomial | int) -> str:
    terms = []
    for powers, factor in _terms(number):
        atoms = ((atom if isinstance(atom, str) else _spelled(atom), power) for atom, power in powers)
        terms.append("*".join((*(f"{atom}^{power}" for atom, power in atoms), f"{factor}")))
    return " + ".join(sorted(terms))


def _value(atom: Atom, values: Mapping[str, Num]) -> Num:
    if isinstance(atom, Floor):
        divisor = atom.divisor.at(values) if isinstance(atom.divisor, Polynomial) else atom.divisor
        whole: Num = floor_div(atom.dividend.at(values), divisor)
        return whole
    if isinstance(atom, Minimum):
        smaller: Num = minimum(atom.one.at(values), atom.other.at(values))
        return smaller
    return values[atom] if atom in values else symbol(atom)


def _divided(term: Num, value: Num) -> Num:
    one: Num = Polynomial({(): 1})
    quotient: Num = divide(one * term, value) if isinstance(value, Polynomial) else floor_div(term, value)
    return quotient
