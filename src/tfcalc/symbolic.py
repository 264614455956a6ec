"""Closed forms as sympy expressions; the only place that imports sympy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tfcalc.core.component import Component
from tfcalc.core.letters import spelled
from tfcalc.core.polynomial import Atom, Floor, Minimum, Polynomial
from tfcalc.symbols import with_symbols
from tfcalc.workload import Workload

if TYPE_CHECKING:
    import sympy

    from tfcalc.model import Model


def tree(model: Model, workload: Workload | None = None, *, general: bool = False) -> Component:
    """The component tree with a sympy symbol for every size: its measures are sympy expressions.

    >>> from tfcalc.core.measure import params
    >>> from tfcalc.families.transformer import Transformer
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
