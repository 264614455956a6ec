"""Closed forms as sympy expressions: the only module that imports sympy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.notation import spelled
from tfcalc.core.polynomial import Atom, Floor, Minimum, Monomial, Polynomial
from tfcalc.model import with_symbols
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import Workload

if TYPE_CHECKING:
    import sympy

    from tfcalc.model import Model


def tree(model: Model, workload: Workload | None = None, *, general: bool = False) -> Component:
    """Return the component tree with a sympy symbol for every size: its measures are sympy expressions.

    >>> from tfcalc.core.measure import params
    >>> from tfcalc.zoo.transformer import Transformer
    >>> tree(Transformer()).total(params).expand()
    28*h**2*n + 32*h*n + 4*h
    """
    symbolic_run = with_symbols(workload or Workload(), sympy_symbol, general=general)
    return with_symbols(model, sympy_symbol, general=general).tree(symbolic_run)


def sympy_symbol(letter: str) -> sympy.Symbol:
    """Return a sympy symbol for a positive integer."""
    import sympy

    return sympy.Symbol(letter, integer=True, positive=True)


def to_sympy(
    number: Polynomial | int, notation: str = "lbhn", letters: Mapping[str, str] = MappingProxyType({})
) -> sympy.Expr:
    """Convert a closed form to a sympy expression, with symbols named as in this notation, or by ``letters``.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, f = symbols("h f")
    >>> to_sympy(2 * h * f + f)
    2*f*h + f
    """
    import sympy

    if not isinstance(number, Polynomial):
        return sympy.Integer(number)
    return sympy.Add(
        *(
            sympy.Mul(factor, *(_atom(atom, notation, letters) ** power for atom, power in powers))
            for powers, factor in number.terms.items()
        )
    )


def _atom(atom: Atom, notation: str, letters: Mapping[str, str]) -> sympy.Expr:
    import sympy

    if isinstance(atom, Floor):
        return sympy.floor(to_sympy(atom.dividend, notation, letters) / to_sympy(atom.divisor, notation, letters))
    if isinstance(atom, Minimum):
        return sympy.Min(to_sympy(atom.one, notation, letters), to_sympy(atom.other, notation, letters))
    return sympy_symbol(letters.get(atom) or spelled(atom, notation))


class Root(NamedTuple):
    """A root of a polynomial: ``(plain + before·√under) / bottom``; without a square root ``under`` is 0."""

    plain: Polynomial
    before: Polynomial
    under: Polynomial
    bottom: Polynomial


def roots(number: Polynomial, letter: str) -> list[Root]:
    """Return the roots of a polynomial of degree 1 or 2 in this letter that may be positive; none for other degrees.

    >>> from tfcalc.core.polynomial import symbols
    >>> l, h = symbols("l h")
    >>> roots(3 * l - 2 * h, "l")
    [Root(plain=2*h, before=0, under=0, bottom=3)]
    >>> roots(5 * l - 4 * h + 1, "l")
    [Root(plain=-1 + 4*h, before=0, under=0, bottom=5)]
    """
    import sympy

    unknown = sympy_symbol(letter)
    poly = sympy.Poly(to_sympy(number), unknown)
    nothing = Polynomial({})
    if poly.degree() == 1:
        slope, constant = poly.all_coeffs()
        top, bottom = sympy.fraction(sympy.together(sympy.cancel(-constant / slope)))
        return [Root(*_signed(from_sympy(top), nothing, nothing, from_sympy(bottom)))]
    if poly.degree() != 2:
        return []
    square, slope, constant = map(sympy.together, poly.all_coeffs())
    factor, radicand = _out_of_root(sympy.factor_list(sympy.expand(slope**2 - 4 * square * constant)))
    common = sympy.gcd_list([slope, factor, 2 * square]) or 1
    plain, before, bottom = (from_sympy(sympy.cancel(part / common)) for part in (-slope, factor, 2 * square))
    under = from_sympy(radicand)
    both = [_signed(plain, sign * before, under, bottom) for sign in (1, -1)]
    return [Root(*parts) for parts in both if _may_be_above_0(*parts)]


def from_sympy(number: sympy.Expr) -> Polynomial:
    """Convert a sympy expression with integer coefficients to a polynomial in tfcalc's own letters."""
    import sympy

    terms: dict[Monomial, int] = {}
    for term in sympy.Add.make_args(sympy.expand(number)):
        factor, rest = term.as_coeff_Mul()
        powers = sorted((f"{base}", int(power)) for base, power in rest.as_powers_dict().items() if base != 1)
        key: Monomial = tuple(powers)
        terms[key] = terms.get(key, 0) + int(factor)
    return Polynomial(terms)


def _out_of_root(factors: tuple[sympy.Expr, list[tuple[sympy.Expr, int]]]) -> tuple[sympy.Expr, sympy.Expr]:
    """Take squares out of a square root: ``√(4h²(h + n)) = 2h·√(h + n)``."""
    import sympy

    number, powers = factors
    root, under = sympy.Integer(1), sympy.Integer(1)
    whole = sympy.sqrt(number)
    outside, inside = whole.as_coeff_Mul() if number > 0 else (sympy.Integer(1), whole)
    root, under = (root * outside, under * sympy.expand(inside**2)) if number > 0 else (root, under * number)
    for base, power in powers:
        root, under = root * base ** (power // 2), under * base ** (power % 2)
    return sympy.expand(root), sympy.expand(under)


def _signed(plain: Polynomial, before: Polynomial, under: Polynomial, bottom: Polynomial) -> list[Polynomial]:
    """Normalize a root: a denominator whose coefficients are not all negative, and no square root of 1."""
    if under == 1:
        plain, before, under = plain + before, Polynomial({}), Polynomial({})
    if bottom.terms and all(factor < 0 for factor in bottom.terms.values()):
        plain, before, bottom = -plain, -before, -bottom
    return [plain, before, under, bottom]


def _may_be_above_0(plain: Polynomial, before: Polynomial, under: Polynomial, bottom: Polynomial) -> bool:
    """Return False only if no sizes can make the root positive."""
    up = all(factor > 0 for factor in bottom.terms.values())
    tops = [*plain.terms.values(), *(before.terms.values() if under.terms else ())]
    return not (up and all(factor < 0 for factor in tops))
