"""Parser of formulas and conditions: by precedence, without executing anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from tfcalc.errors import UsageError
from tfcalc.expressions import tokens as kinds
from tfcalc.expressions.nodes import (
    LARGEST_EXPONENT,
    Expression,
    FloorNode,
    MinimumNode,
    Name,
    NumberNode,
    Power,
    ProductNode,
    SumNode,
    evaluate,
    names_of,
)
from tfcalc.expressions.tokens import Token, fault, tokens
from tfcalc.printable import quoted

DEEPEST = 32
"""Brackets, signs and exponents inside each other."""

MOST_COMPARISONS = 2
CLOSING = {"(": ")", "⌊": "⌋"}


@dataclass(frozen=True, slots=True)
class Condition:
    """Two formulas and how they compare: ``=``, ``<=``, ``>=``, ``<`` or ``>``."""

    left: Expression
    operator: str
    right: Expression

    @property
    def names(self) -> frozenset[str]:
        """Names in a condition."""
        return names_of(self.left) | names_of(self.right)


def read_formula(text: str, names: Collection[str] | None = None, *, quantities: bool = False) -> Expression:
    """Read a formula, or raise UsageError with the place where it is none.

    Args:
        text: as people write it: ``4h² + 4h``, ``3*d_ff*d_model``.
        names: those that it may have, by which adjacent letters are separated. None: any word is one name.
        quantities: whether numbers may have units (``80GiB``) and names may be paths, as in a condition.

    >>> from tfcalc.expressions import evaluate
    >>> evaluate(read_formula("4lbh(2h + l)", ["l", "b", "h"]), {"l": 2, "b": 3, "h": 5})
    1440
    """
    reader = _Reader(text, names, conditions=quantities)
    found = reader.sum(0)
    reader.finish()
    return found


def read_conditions(text: str, names: Collection[str] | None = None) -> tuple[Condition, ...]:
    """Read a comparison, or a chain of two as its two conditions; raise UsageError where it is none.

    >>> [(condition.operator, sorted(condition.names)) for condition in read_conditions("1B <= params < 2 * ffn.flops")]
    [('<=', ['params']), ('<', ['ffn.flops', 'params'])]
    """
    reader = _Reader(text, names, conditions=True)
    sides, operators = [reader.sum(0)], list[str]()
    while reader.next.kind == kinds.COMPARE:
        sign = reader.take()
        if len(operators) == MOST_COMPARISONS:
            raise reader.fault(sign, "a condition has at most two comparisons", "write at most two: 1B <= params < 2B")
        operators.append(sign.text)
        sides.append(reader.sum(0))
    reader.finish()
    if not operators:
        raise UsageError(f"{quoted(text)} compares nothing", "write a condition: params <= 125M")
    return tuple(Condition(*each) for each in zip(sides, operators, sides[1:], strict=False))


class _Reader:
    """The tokens of a text, of which the next one is looked at."""

    def __init__(self, text: str, names: Collection[str] | None, *, conditions: bool) -> None:
        self.text, self.conditions = text, conditions
        self.tokens = list(tokens(text, names, conditions=conditions))
        self.place = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def is_next(self, *signs: str) -> bool:
        return self.next.kind == kinds.SIGN and self.next.text in signs

    def take(self) -> Token:
        taken = self.next
        self.place += taken.kind != kinds.END
        return taken

    def fault(self, token: Token, what: str, remedy: str) -> UsageError:
        return fault(self.text, token.at, what, remedy)

    def finish(self) -> None:
        """Raise UsageError if anything is left over."""
        left = self.next
        if left.kind == kinds.COMPARE:
            raise self.fault(left, f"{left.text!r} compares", "give one formula, without a comparison")
        if left.kind != kinds.END:
            opening = {")": "(", "⌋": "⌊"}.get(left.text)
            what = f"{left.text!r} closes nothing" if opening else f"{left.text!r} has no place here"
            raise self.fault(left, what, f"leave it out, or open {opening!r} before" if opening else "leave it out")

    def sum(self, depth: int) -> Expression:
        terms = [self.product(depth, first=True)]
        while self.is_next("+", "-"):
            negative = self.take().text == "-"
            term = self.product(depth)
            terms.append(_negative(term) if negative else term)
        return terms[0] if len(terms) == 1 else SumNode(tuple(terms))

    def product(self, depth: int, *, first: bool = False) -> Expression:
        negative = first and self.is_next("+", "-") and self.take().text == "-"
        factors = [self.factor(depth)]
        divided: Token | None = None
        while True:
            if self.is_next("*", "/"):
                sign = self.take()
                factor = self.factor(depth)
                divided = sign if sign.text == "/" else None
                factors.append(Power(factor, -1) if divided else factor)
            elif self._follows():
                if divided:
                    what = "a product without a sign after '/' can be read in two ways"
                    raise self.fault(divided, what, "write h/(2a) or (h/2)*a")
                factors.append(self.power(depth))
            else:
                break
        found = factors[0] if len(factors) == 1 else ProductNode(tuple(factors))
        return _negative(found) if negative else found

    def _follows(self) -> bool:
        """Return whether a factor without an operator comes next. Raises UsageError where that is a number."""
        if self.next.kind in (kinds.NUMBER, kinds.QUANTITY):
            number = self.next.text
            raise self.fault(self.next, f"missing operator before {number}", f"write * {number} or ^ {number}")
        return self.next.kind == kinds.NAME or self.is_next("(", "⌊", "floor", "min")

    def factor(self, depth: int) -> Expression:
        if self.is_next("+", "-"):
            sign = self.take()
            factor = self.factor(self.deeper(depth, sign))
            return _negative(factor) if sign.text == "-" else factor
        return self.power(depth)

    def power(self, depth: int) -> Expression:
        base = self.atom(depth)
        if self.next.kind == kinds.POWER:
            sign = self.take()
            return Power(base, self._exponent(sign, Fraction(int(sign.text[:8]))))
        if self.is_next("^"):
            sign = self.take()
            exponent = self.factor(self.deeper(depth, sign))
            if names_of(exponent):
                raise self.fault(sign, "an exponent is a number", f"write a number up to {LARGEST_EXPONENT}")
            return Power(base, self._exponent(sign, Fraction(evaluate(exponent, {}))))
        return base

    def _exponent(self, sign: Token, value: Fraction) -> int:
        if value.denominator != 1 or abs(value) > LARGEST_EXPONENT:
            what = f"the exponent is no whole number from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT}"
            raise self.fault(sign, what, "write the power that is meant, such as h^2")
        return value.numerator

    def atom(self, depth: int) -> Expression:
        token = self.take()
        if token.kind in (kinds.NUMBER, kinds.QUANTITY):
            return NumberNode(token.value, token.text, token.unit)
        if token.kind == kinds.NAME:
            return Name(token.text, token.at)
        if token.kind == kinds.SIGN:
            if token.text in CLOSING:
                inside = self.sum(self.deeper(depth, token))
                self.close(token, CLOSING[token.text])
                return FloorNode(inside) if token.text == "⌊" else inside
            if token.text in ("floor", "min"):
                return self.call(token, self.deeper(depth, token))
        raise self._wanting(token)

    def call(self, name: Token, depth: int) -> Expression:
        opening = self.take()
        one = self.sum(depth)
        if name.text == "floor":
            self.close(opening, ")")
            return FloorNode(one)
        if not self.is_next(","):
            raise self.fault(self.next, "'min' compares two", "write min(l, w)")
        self.take()
        other = self.sum(depth)
        self.close(opening, ")")
        return MinimumNode(one, other)

    def close(self, opening: Token, closing: str) -> None:
        if not self.is_next(closing):
            if self.next.kind == kinds.END:
                raise self.fault(opening, f"{opening.text!r} is not closed", f"add {closing!r}")
            raise self.fault(
                self.next, f"{self.next.text!r} comes where {closing!r} is due", f"add {closing!r} before it"
            )
        self.take()

    def deeper(self, depth: int, token: Token) -> int:
        if depth + 1 > DEEPEST:
            raise self.fault(token, f"more than {DEEPEST} brackets or signs are nested", "write it flat")
        return depth + 1

    def _wanting(self, token: Token) -> UsageError:
        """A factor was needed, and this came."""
        before = self.tokens[self.tokens.index(token) - 1] if token is not self.tokens[0] else None
        remedy = "write a number, a letter or a bracket there"
        if before is None:
            if token.kind == kinds.END:
                return UsageError(f"{quoted(self.text)} is empty", "write a formula: 4h^2 + 4h")
            return self.fault(token, f"{token.text!r} needs a factor before it", remedy)
        return self.fault(before, f"{before.text!r} needs a factor after it", remedy)


def _negative(term: Expression) -> Expression:
    return (
        NumberNode(-term.value, f"-{term.text}", term.unit)
        if isinstance(term, NumberNode)
        else ProductNode((NumberNode(Fraction(-1), "-1"), term))
    )
