"""Closed forms as sympy expressions; the only place that imports sympy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.letters import spelled
from tfcalc.core.polynomial import Atom, Floor, Minimum, Monomial, Polynomial
from tfcalc.symbols import with_symbols
from tfcalc.workload import Workload

if TYPE_CHECKING:
    import sympy

    from tfcalc.model import Model


def tree(model: Model, workload: Workload | None = None, *, general: bool = False) -> Component:
    """The component tree with a sympy symbol for every size: its measures are sympy expressions.

    >>> from tfcalc.core.measure import params
    >>> from tfcalc.zoo.transformer import Transformer
    >>> tree(Transformer()).total(params).expand()
    28*h**2*n + 32*h*n + 4*h
    """
    symbolic_run = with_symbols(workload or Workload(), sympy_symbol, general=general)
    return with_symbols(model, sympy_symbol, general=general).tree(symbolic_run)


def sympy_symbol(letter: str) -> sympy.Symbol:
    """A positive whole number without a value."""
    import sympy

    return sympy.Symbol(letter, integer=True, positive=True)


def to_sympy(
    number: Polynomial | int, notation: str = "lbhn", letters: Mapping[str, str] = MappingProxyType({})
) -> sympy.Expr:
    """The same closed form as a sympy expression, its symbols named as this notation prints them, or by ``letters``.

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
    """Where a polynomial is 0: ``(plain + before·√under) / bottom``; without a root ``under`` is 0."""

    plain: Polynomial
    before: Polynomial
    under: Polynomial
    bottom: Polynomial


def roots(number: Polynomial, letter: str) -> list[Root]:
    """Where a polynomial of degree 1 or 2 in this letter is 0; of a degree above, or where none can be above 0, none.

    >>> from tfcalc.core.polynomial import symbols
    >>> l, h = symbols("l h")
    >>> roots(3 * l - 2 * h, "l")
    [Root(plain=2*h, before=0, under=0, bottom=3)]
    """
    import sympy

    unknown = sympy_symbol(letter)
    poly = sympy.Poly(to_sympy(number), unknown)
    nothing = Polynomial({})
    if poly.degree() == 1:
        slope, constant = poly.all_coeffs()
        top, bottom = sympy.fraction(sympy.cancel(sympy.together(-constant / slope)))
        return [Root(*_signed(from_sympy(top), nothing, nothing, from_sympy(bottom)))]
    if poly.degree() != 2:
        return []
    square, slope, constant = (sympy.together(each) for each in poly.all_coeffs())
    root, under = _out_of_root(sympy.factor_list(sympy.expand(slope**2 - 4 * square * constant)))
    common = sympy.gcd_list([slope, root, 2 * square]) or 1
    plain, root, bottom = (sympy.cancel(each / common) for each in (-slope, root, 2 * square))
    pieces = [from_sympy(each) for each in (plain, root, under, bottom)]
    both = [_signed(pieces[0], sign * pieces[1], pieces[2], pieces[3]) for sign in (1, -1)]
    return [Root(*each) for each in both if _may_be_above_0(*each)]


def from_sympy(number: sympy.Expr) -> Polynomial:
    """A polynomial with whole factors, whose symbols are tfcalc's own letters."""
    import sympy

    found: dict[Monomial, int] = {}
    for term in sympy.Add.make_args(sympy.expand(number)):
        factor, rest = term.as_coeff_Mul()
        powers = sorted((f"{base}", int(power)) for base, power in rest.as_powers_dict().items() if base != 1)
        key: Monomial = tuple(powers)
        found[key] = found.get(key, 0) + int(factor)
    return Polynomial(found)


def _out_of_root(factors: tuple[sympy.Expr, list[tuple[sympy.Expr, int]]]) -> tuple[sympy.Expr, sympy.Expr]:
    """Squares are taken out of a square root: ``√(4h²(h + n)) = 2h·√(h + n)``."""
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
    """The same with a denominator whose factors are not all below 0; a root of 1 is taken."""
    if under == 1:
        plain, before, under = plain + before, Polynomial({}), Polynomial({})
    if bottom.terms and all(factor < 0 for factor in bottom.terms.values()):
        plain, before, bottom = -plain, -before, -bottom
    return [plain, before, under, bottom]


def _may_be_above_0(plain: Polynomial, before: Polynomial, under: Polynomial, bottom: Polynomial) -> bool:
    """False only where it is certain that no sizes make it positive."""
    up = all(factor > 0 for factor in bottom.terms.values())
    tops = [*plain.terms.values(), *(before.terms.values() if under.terms else ())]
    return not (up and all(factor < 0 for factor in tops))
