"""LaTeX as latex2sympy2_extended reads it, which knows nothing of tfcalc: formulas, and products in numbers.

To that parser e is 2.718… and I a root of −1, so letters are renamed first, each on its own; letters that run into each
other are refused. It takes a second for some formulas. Therefore a sum in brackets is read by itself,
and is (1 + x) to what stands around it; and formulas that only differ in their letters are read once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

from latex2sympy2_extended import latex2sympy  # type: ignore[import-untyped]  # it has no types

from tfcalc.core.notation import LATEX

LETTER = re.compile(r"\\mathrm\{[^{}]*\}|(?<![\\A-Za-z])[A-Za-z](?:_\{[^}]*\})?(?![A-Za-z])|⟨\d+⟩")
BRACKETS = re.compile(r"(?<!\\min)\(((?:[^()]|\\min\([^()]*\))* [+-] (?:[^()]|\\min\([^()]*\))*)\)")
"""A sum in brackets without others in it, but for those of minima."""
NUMBER = re.compile(r"(?<![\d^{])\d+")
TOGETHER = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
SINGLE = "xyzwuvpqrstabcjklmn"
NAMES = (*SINGLE, *(f"{letter}_{{1}}" for letter in SINGLE))
"""Letters that the parser has no other use for; capitals are lower letters to it, and an index takes it longer."""


def worth(text: str, at: Mapping[str, Any]) -> Fraction:
    """What a formula is worth where each letter of tfcalc's has this value.

    Raises KeyError where there is a letter in it that has none, and whatever the parser raises.
    """
    known = {LATEX.symbol(letter): value for letter, value in at.items()}
    return _once(text, tuple((letter, int(known[letter])) for letter in dict.fromkeys(LETTER.findall(text))))


@cache
def _once(text: str, at: tuple[tuple[str, int], ...]) -> Fraction:
    return _worth(text, {letter: Fraction(value) for letter, value in at})


def number(text: str) -> Fraction:
    """What a product or a sum of numbers is worth. (Each number is a letter to the parser, so that few are read.)"""
    values: dict[str, Fraction] = {}

    def letter(found: re.Match[str]) -> str:
        return f"\\mathrm{{{values.setdefault(found[0], Fraction(int(found[0])))}}}"

    named = NUMBER.sub(letter, text)
    return _worth(named, {f"\\mathrm{{{digits}}}": value for digits, value in values.items()})


def _worth(text: str, values: Mapping[str, Fraction]) -> Fraction:
    values = dict(values)
    while (found := BRACKETS.search(text)) is not None:
        name = f"⟨{len(values)}⟩"
        values[name] = _worth(found[1], values) - 1
        text = f"{text[: found.start()]}{name}{text[found.end() :]}"
    letters = dict.fromkeys(LETTER.findall(text))
    places = dict(zip(letters, NAMES, strict=False))

    def renamed(found: re.Match[str]) -> str:
        return f"(1 + {places[found[0]]})" if found[0].startswith("⟨") else places[found[0]]

    plain = LETTER.sub(renamed, text)
    assert not TOGETHER.search(plain), f"letters run together in {text!r}"
    return _exact(_read(plain), {places[letter]: values[letter] for letter in letters})


@cache
def _read(text: str) -> Any:
    return latex2sympy(text)


def _exact(formula: Any, at: Mapping[str, Fraction]) -> Fraction:
    """A parsed formula's value, in fractions."""

    def parts() -> Iterable[Fraction]:
        return (_exact(part, at) for part in formula.args)

    match type(formula).__name__:
        case "Symbol":
            return at[str(formula).replace("_1", "_{1}")]
        case "Add":
            return sum(parts(), Fraction())
        case "Mul":
            return prod(parts(), start=Fraction(1))
        case "Pow":
            base, power = parts()
            assert power.denominator == 1
            return base ** int(power)
        case "floor":
            return Fraction(next(iter(parts())) // 1)
        case "Min":
            return min(parts())
        case _:
            assert formula.is_Rational, f"{formula!r} is no number"
            return Fraction(int(formula.p), int(formula.q))
