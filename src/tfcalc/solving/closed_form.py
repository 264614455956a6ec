"""A condition in letters: the difference of its sides, what is common to all terms, and where it is 0, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import gcd

from tfcalc.core.polynomial import Atom, Monomial, Polynomial, symbol
from tfcalc.expressions import Expression, expanded
from tfcalc.expressions.nodes import FloorNode, MinimumNode, Power, ProductNode, SumNode
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.style import Style
from tfcalc.symbolic import Root, roots

MOST_TERMS = 400
"""Of a product that is multiplied out."""
MOST_SOLVED = 80
"""Terms of a difference that is solved in letters."""

ONE = Polynomial({(): 1})


class Over(NamedTuple):
    """A polynomial over another."""

    top: Polynomial
    bottom: Polynomial = ONE


class TooLarge(Exception):
    """A closed form that is no use to anyone."""


def over(expression: Expression, meaning: Mapping[str, Polynomial]) -> Over:
    """A formula as one fraction, each name replaced by what it means. Raises TooLarge, and UsageError."""
    match expression:
        case SumNode(terms):
            return reduce(_sum, (over(term, meaning) for term in terms))
        case ProductNode(factors):
            return reduce(_product, (over(factor, meaning) for factor in factors))
        case Power(base, exponent):
            its = over(base, meaning)
            its = its if exponent > 0 else Over(its.bottom, its.top)
            return reduce(_product, [its] * abs(exponent), Over(ONE))
        case FloorNode() | MinimumNode():
            ratio = expanded(expression, meaning)
            return Over(ratio.top, ONE * ratio.bottom)
    ratio = expanded(expression, meaning)
    return Over(ratio.top, ONE * ratio.bottom)


def difference(left: Over, right: Over) -> Polynomial | None:
    """Return a polynomial with the sign of left less right; None where a denominator may be below 0."""
    if not (_above_0(left.bottom) and _above_0(right.bottom)):
        return None
    if left.bottom == right.bottom:
        return left.top - right.top
    return _times(left.top, right.bottom) - _times(right.top, left.bottom)


class Steps(NamedTuple):
    """Solution of a condition in letters: ``lines`` of text, and where the sides are ``equal``, if not ``never``."""

    lines: tuple[str, ...]
    equal: tuple[Root, ...]
    never: bool = False


def common_factor(form: Polynomial) -> Polynomial:
    """The largest monomial that divides all terms: it is above 0, as all sizes are.

    >>> from tfcalc.core.polynomial import symbols
    >>> l, h, b = symbols("l h b")
    >>> common_factor(12 * l * l * b * h - 8 * l * b * h * h)
    4*b*h*l
    """
    number = gcd(*form.terms.values())
    terms = [dict(powers) for powers in form.terms]
    atoms: set[Atom] = {atom for powers in terms for atom in powers if isinstance(atom, str)}
    least = {atom: min(powers.get(atom, 0) for powers in terms) for atom in atoms}
    monomial: Monomial = tuple(sorted((atom, power) for atom, power in least.items() if power))
    return Polynomial({monomial: number})


def solved(left: Over, right: Over, sign: str, letter: str, style: Style) -> Steps:
    """The steps from a condition to where its sides are equal; no roots where that is beyond a quadratic."""
    form = style.formula
    lines = [f"{_written(left, style)} {sign} {_written(right, style)}"]
    moved = difference(left, right)
    if moved is None or len(moved.terms) > MOST_SOLVED:
        return Steps(tuple(lines), ())
    if not moved.terms:
        return Steps((*lines, "0 = 0: both sides are the same"), ())
    lines.append(f"{form(moved, factored=False)} {sign} 0")
    if len({factor > 0 for factor in moved.terms.values()}) == 1 and _plain(moved):
        above = next(iter(moved.terms.values())) > 0
        which = "it is" if len(moved.terms) == 1 else "every term is"
        lines.append(f"{which} {'above' if above else 'below'} 0 at all sizes, so the sides are never equal")
        return Steps(tuple(lines), (), never=True)
    common = common_factor(moved)
    rest = moved / common
    if common != 1:
        shown = form(common)
        lines.append(
            f"divided by {shown}{' > 0' if common.free_symbols else ''}: {form(rest, factored=False)} {sign} 0"
        )
    powers = {dict(each).get(letter, 0) for each in rest.terms}
    if not _plain(rest) or min(powers) < 0:
        return Steps(tuple(lines), ())
    if max(powers) not in (1, 2):
        return Steps(tuple(lines), ())
    equal = tuple(roots(rest, letter))
    lines += [f"{form(symbol(letter))} = {written(root, style)}" for root in equal]
    return Steps(tuple(lines), equal)


def written(root: Root, style: Style) -> str:
    """``2h/3``, ``(√(h² + 4n) - h)/2n``."""
    form: Callable[..., str] = style.formula
    latex = style.script == "latex"
    parts = []
    if root.under.terms:
        under = form(root.under, factored=False)
        shown = rf"\sqrt{{{under}}}" if latex else f"{'sqrt' if style.script == 'ascii' else '√'}({under})"
        factor = form(root.before)
        parts.append(
            (
                ""
                if factor == "1"
                else "-"
                if factor == "-1"
                else _bracketed(factor) + ("*" if style.script == "ascii" else "")
            )
            + shown
        )
    if root.plain.terms:
        parts.append(form(root.plain, factored=False))
    top = " + ".join(parts).replace("+ -", "- ") or "0"
    if root.bottom == 1:
        return top
    bottom = form(root.bottom)
    if latex:
        return rf"\frac{{{top}}}{{{bottom}}}"
    single = len(parts) == 1 and len(root.plain.terms) <= 1
    below = bottom if bottom.isalnum() and (bottom.isdigit() or len(bottom) == 1) else f"({bottom})"
    return f"{top if single else f'({top})'}/{below}"


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text


def _written(side: Over, style: Style) -> str:
    top = style.formula(side.top)
    if side.bottom == 1:
        return top
    return f"({top})/({style.formula(side.bottom)})"


def _above_0(number: Polynomial) -> bool:
    return bool(number.terms) and all(factor > 0 for factor in number.terms.values()) and _plain(number)


def _plain(number: Polynomial) -> bool:
    """Return whether it contains no floor and no minimum, which may be 0."""
    return all(isinstance(atom, str) for powers in number.terms for atom, _ in powers)


def _sum(one: Over, other: Over) -> Over:
    if one.bottom == other.bottom:
        return Over(one.top + other.top, one.bottom)
    return Over(_times(one.top, other.bottom) + _times(other.top, one.bottom), _times(one.bottom, other.bottom))


def _product(one: Over, other: Over) -> Over:
    return Over(_times(one.top, other.top), _times(one.bottom, other.bottom))


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    if len(one.terms) * len(other.terms) > MOST_TERMS * 10:
        raise TooLarge
    found = one * other
    if any(abs(power) > 16 for powers in found.terms for _, power in powers):
        raise TooLarge
    if any(factor.bit_length() > 4096 for factor in found.terms.values()):
        raise TooLarge
    return found
