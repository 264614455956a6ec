"""Formulas and conditions: those put together of their parts have a value that is known, others are read or refused."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from tfcalc.core.polynomial import Polynomial
from tfcalc.expressions import Ratio, evaluate, expanded, names_of, read_conditions, read_formula
from tools.fuzz.mutations import edited
from tools.fuzz.parsed import holds, parsed

SIZES: dict[str, int | Fraction] = {"h": 512, "l": 64, "n": 6, "V": 37000, "d_ff": 2048, "b": 3}
LETTERS = {name: name for name in SIZES}
TEXTS = [
    *(
        "4h² + 4h",
        "3*d_ff**2 + 4*h",
        "4lbh(2h + l)",
        "n(28h² + 32h) + (4 + 2V)h",
        "⌊h/5⌋ + min(l, h)",
        "floor((h+1)/2)",
    ),
    *("2·h·l − 7", "h/2/l", "(h+1)^3", "-h^-1", "1.5h", "4_096 + 4,096", "h ÷ 3", "1e12", "((((h))))", "h⁻²"),
]
CONDITIONS = [
    *("params <= 125M", "1B <= params < 2B", "memory ≤ 80GiB", "attention = ffn", "flops.total >= 2 * 1e12"),
    *("model.layers[0-2].mlp == h", "4h² + 4h < 1_000", "min(l, h) > 3"),
]
UNITS = {"k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12, "Ki": 2**10, "GiB": 2**30, "MB": 10**6}
COMPARISONS: dict[str, tuple[str, ...]] = {
    "=": ("=", "=="),
    "<=": ("<=", "≤", "=<"),
    ">=": (">=", "≥", "=>"),
    "<": ("<",),
    ">": (">",),
}


class Made(NamedTuple):
    """A formula with its value; ``tight``: how strongly it holds together (0 sum, 1 product, 2 power, 3 atom)."""

    text: str
    value: Fraction
    tight: int


def formulas(draw: random.Random) -> None:
    """A formula or a condition, that is right or has a slip."""
    kind = draw.random()
    if kind < 0.4:
        _right(draw)
    elif kind < 0.5:
        _condition(draw)
    elif kind < 0.85:
        _any_formula(edited(draw, draw.choice(TEXTS), TEXTS))
    elif kind < 0.97:
        _any_condition(edited(draw, draw.choice(CONDITIONS), [*CONDITIONS, *TEXTS]))
    else:
        _any_formula(_heavy(draw))


def made(draw: random.Random, depth: int = 3) -> Made:
    """A formula put together of its parts, in one of the ways to write it."""
    make: Callable[[random.Random, int], Made] = draw.choice((_atom, _sum, _product, _power, _call)) if depth else _atom
    return make(draw, depth)


def _atom(draw: random.Random, _: int) -> Made:
    if draw.random() < 0.6:
        name = draw.choice(list(SIZES))
        return Made(name, Fraction(SIZES[name]), 3)
    number = draw.choice((0, 1, 2, 3, 7, 512, 4096, 10**6))
    if draw.random() < 0.2:
        return Made(f"{number}.25", number + Fraction(1, 4), 3)
    return Made(draw.choice((f"{number}", f"{number:,}", f"{number:_}")), Fraction(number), 3)


def _within(part: Made, tight: int) -> str:
    """The part in brackets, where it does not hold together as strongly as that."""
    return part.text if part.tight >= tight else f"({part.text})"


def _sum(draw: random.Random, depth: int) -> Made:
    parts = [made(draw, depth - 1) for _ in range(draw.choice((2, 2, 3)))]
    text, value = _within(parts[0], 1), parts[0].value
    for part in parts[1:]:
        sign = draw.choice("+-−")
        text += f"{draw.choice((' ', ''))}{sign}{draw.choice((' ', ''))}{_within(part, 1)}"
        value += part.value if sign == "+" else -part.value
    return Made(text, value, 0)


def _product(draw: random.Random, depth: int) -> Made:
    one, other = made(draw, depth - 1), made(draw, depth - 1)
    if draw.random() < 0.3 and other.value:
        return Made(f"{_within(one, 1)}{draw.choice(('/', ' / ', '÷'))}{_within(other, 3)}", one.value / other.value, 1)
    sign = draw.choice(("*", " * ", "·", "×", " × ", "("))
    if sign == "(":  # without a sign, behind a bracket
        return Made(f"({one.text})({other.text})", one.value * other.value, 1)
    # a number does not follow a letter, and a sum has brackets
    return Made(f"{_within(one, 2)}{sign}{_within(other, 2)}", one.value * other.value, 1)


def _power(draw: random.Random, depth: int) -> Made:
    base, exponent = made(draw, depth - 1), draw.choice((0, 1, 2, 3, 4))
    raised = draw.choice((f"^{exponent}", f"**{exponent}", "⁰¹²³⁴"[exponent]))
    return Made(_within(base, 3) + raised, base.value**exponent, 2)


def _call(draw: random.Random, depth: int) -> Made:
    one = made(draw, depth - 1)
    if draw.random() < 0.5:
        text = draw.choice((f"⌊{one.text}⌋", f"floor({one.text})", f"floor ( {one.text})"))
        return Made(text, Fraction(math.floor(one.value)), 3)
    other = made(draw, depth - 1)
    return Made(f"min({one.text}, {other.text})", min(one.value, other.value), 3)


def _right(draw: random.Random) -> None:
    one = made(draw)
    read = parsed("formula", one.text, lambda: read_formula(one.text, LETTERS))
    holds("a right formula is read", read is not None, one.text)
    if read is None:
        return
    value = parsed("formula's value", one.text, lambda: evaluate(read, SIZES))
    if value is not None:
        holds("a formula has its value", value == one.value, one.text, value, one.value)
        holds("a whole value is an int", type(value) is int or Fraction(value).denominator > 1, one.text, value)
    ratio = parsed("formula expanded", one.text, lambda: expanded(read, LETTERS))
    if ratio is not None:
        _same(ratio, one.value, one.text)


def _same(ratio: Ratio, value: Fraction, text: str) -> None:
    """A polynomial over a number is the formula that it was.

    Where a letter divides, the polynomial's ``at`` rounds as // does, and the formula does not.
    """
    inside = any(not isinstance(atom, str) for powers in ratio.top.terms for atom, _ in powers)
    if any(power < 0 for powers in ratio.top.terms for _, power in powers) or (inside and re.search("[/÷⁻]|-1", text)):
        return
    found = ratio.top.at(SIZES)
    found = found.terms.get((), 0) if isinstance(found, Polynomial) else found
    holds("a formula multiplied out has its value", Fraction(found, ratio.bottom) == value, text, ratio, value)


def _any_formula(text: str) -> None:
    read = parsed("formula", text, lambda: read_formula(text, LETTERS))
    if read is None:
        return
    holds("a formula has names that are known", names_of(read) <= LETTERS.keys(), text)
    value = parsed("formula's value", text, lambda: evaluate(read, SIZES))
    ratio = parsed("formula expanded", text, lambda: expanded(read, LETTERS))
    if value is not None and ratio is not None:
        _same(ratio, Fraction(value), text)


def _condition(draw: random.Random) -> None:
    """Two formulas that are compared, the second perhaps a quantity."""
    one, (sign, spelled) = made(draw, 2), draw.choice(list(COMPARISONS.items()))
    unit = draw.choice(list(UNITS))
    number = draw.choice((1, 2, 80, 125))
    text = f"{one.text} {draw.choice(spelled)} {number}{unit}"
    found = parsed("condition", text, lambda: read_conditions(text, LETTERS))
    holds("a right condition is read", found is not None and len(found) == 1, text)
    for condition in found or ():
        value = parsed("condition's value", text, lambda: evaluate(condition.right, SIZES))  # noqa: B023  # at once
        holds("a condition's quantity", value == number * UNITS[unit] and condition.operator == sign, text, value)


def _any_condition(text: str) -> None:
    found = parsed("condition", text, lambda: read_conditions(text, None))
    holds("one or two comparisons", found is None or len(found) in (1, 2), text, found)


def _heavy(draw: random.Random) -> str:
    """What grows when it is multiplied out, nests or is long."""
    times = draw.choice((10, 49, 51, 100, 1000, 7990))
    return draw.choice(
        (
            "(h + l + n + b)^16" * draw.choice((1, 2, 5)),
            "(" * times + "h" + ")" * times,
            "-" * times + "h",
            "+".join(["h"] * min(times, 3990)),
            "/".join(["h"] * min(times, 3990)),
            "h" * times,
            "((((h+1)^16)^16)^16)^16",
            "9" * times,
            "h^" * min(times, 100) + "2",
            "min(" * min(times, 1000) + "h",
            "⌊" * min(times, 1000) + "h" + "/3⌋" * min(times, 1000),
            "*".join(["(h + l)"] * min(times, 1000)),
            "*".join(["⌊(h + l)/3⌋"] * min(times, 600)),
            "1/3 + " * min(times, 1300) + "h",
            " + ".join(f"1/{number}" for number in range(1, min(times, 900))),
            "min" * min(times, 2600),
        )
    )
