"""A formula as text, with names or with what stands for them."""

from __future__ import annotations

from collections.abc import Mapping

from tfcalc.expressions.nodes import Expression, FloorNode, MinimumNode, Name, NumberNode, Power, ProductNode, SumNode


def written(expression: Expression, values: Mapping[str, object]) -> str:
    """The formula with these values in the place of names; names without one stay.

    >>> from tfcalc.expressions import read_formula
    >>> written(read_formula("2h/3 + 1", {"h"}), {"h": 512})
    '2·512/3 + 1'
    """
    match expression:
        case NumberNode(value):
            return str(value) if value.denominator == 1 else f"({value})"
        case Name(name):
            return str(values.get(name, name))
        case SumNode(terms):
            return f"{' + '.join(written(term, values) for term in terms)}".replace("+ -", "- ")
        case ProductNode(factors):
            return _product(factors, values)
        case Power(base, exponent):
            return f"{_closed(base, values)}^{exponent}" if exponent != -1 else f"1/{_closed(base, values)}"
        case FloorNode(inside):
            return f"⌊{written(inside, values)}⌋"
        case MinimumNode(one, other):
            return f"min({written(one, values)}, {written(other, values)})"


def _product(factors: tuple[Expression, ...], values: Mapping[str, object]) -> str:
    over = [each for each in factors if not (isinstance(each, Power) and each.exponent < 0)]
    under = [Power(each.base, -each.exponent) for each in factors if isinstance(each, Power) and each.exponent < 0]
    top = "·".join(_closed(each, values) for each in over) or "1"
    below = "".join(f"/{_closed(each.base if each.exponent == 1 else each, values)}" for each in under)
    return f"{top}{below}".replace("-1·", "-")


def _closed(expression: Expression, values: Mapping[str, object]) -> str:
    """Return it in brackets where it is a sum or a product."""
    text = written(expression, values)
    return f"({text})" if isinstance(expression, SumNode | ProductNode) else text
