"""An independent reader of printed formulas: it evaluates the text, and knows nothing of how it was written.

Grammar: sum of products; factors stand side by side or with ·, * or × between them; ² or ^2 are powers; O(…), ⌊a/b⌋,
floor(a/b) and min(a, b) are calls; single letters are symbols, longer ones have an underscore or are named in ``at``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor

TOKEN = r"\s*(floor|min(?=\()|[a-zA-Z]+_[a-zA-Z0-9_]+|{words}[a-zA-Z]|\d+|[²³⁴⁵⁶⁷⁸⁹]|.)"
LATEX = (
    (r"\\left\\lfloor", "⌊"),
    (r"\\right\\rfloor", "⌋"),
    (r"\\times", "×"),
    (r"\\min", "min"),
    (r"\\mathrm\{([a-zA-Z0-9_\\]+)\}", lambda found: found[1].replace("\\", "")),
    (r"_\{([^}]*)\}", lambda found: "_" + found[1].replace(",", "_")),
    (r"\^\{(\d+)\}", r"^\1"),
    (r"(?<=[a-zA-Z0-9_)⌋]) (?=[a-zA-Z0-9_(⌊])", "*"),
)
"""What LaTeX writes, and what this reader reads."""
POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


Value = int | Fraction


def evaluate(text: str, at: Mapping[str, int]) -> Value:
    """The value of a printed formula where its symbols have these values: a product goes on behind a division."""
    tokens = _tokens(text, at)
    value, rest = _sum(tokens, at)
    assert not rest, f"{''.join(rest)!r} is left over of {text!r}"
    return value


def from_latex(text: str) -> str:
    """The same formula without LaTeX's commands."""
    for written, read in LATEX:
        text = re.sub(written, read, text)
    return text


def letters_of(text: str, words: Iterable[str] = ()) -> set[str]:
    """The letters of a printed formula, whole ``words`` among them."""
    return {token for token in _tokens(text, words) if token[0].isalpha()} - {"floor", "min", "O"}


def _tokens(text: str, words: Iterable[str]) -> list[str]:
    known = "".join(rf"{re.escape(word)}|" for word in sorted(words, key=len, reverse=True) if len(word) > 1)
    return re.findall(TOKEN.format(words=known), text)


def _sum(tokens: list[str], at: Mapping[str, int]) -> tuple[Value, list[str]]:
    value, tokens = (0, tokens) if tokens[0] == "-" else _product(tokens, at)
    while tokens and tokens[0] in "+-":
        sign = 1 if tokens[0] == "+" else -1
        term, tokens = _product(tokens[1:], at)
        value += sign * term
    return value, tokens


def _product(tokens: list[str], at: Mapping[str, int]) -> tuple[Value, list[str]]:
    value, tokens = _power(tokens, at)
    while tokens and tokens[0] not in "+-)⌋,":
        if tokens[0] == "/":
            divisor, tokens = _power(tokens[1:], at)
            value = Fraction(value) / divisor
        else:
            factor, tokens = _power(tokens[1:] if tokens[0] in "·*×" else tokens, at)
            value *= factor
    return value, tokens


def _power(tokens: list[str], at: Mapping[str, int]) -> tuple[Value, list[str]]:
    value, tokens = _atom(tokens, at)
    if tokens and tokens[0] in POWERS:
        return value ** POWERS.index(tokens[0]), tokens[1:]
    if tokens and tokens[0] == "^":
        return value ** int(tokens[1]), tokens[2:]
    return value, tokens


def _atom(tokens: list[str], at: Mapping[str, int]) -> tuple[Value, list[str]]:
    first, rest = tokens[0], tokens[1:]
    if first in ("O", "floor") and rest[:1] == ["("]:
        value, rest = _atom(rest, at)
        return (floor(value) if first == "floor" else value), rest
    if first == "min":
        one, rest = _sum(rest[1:], at)
        other, rest = _sum(rest[1:], at)
        return min(one, other), rest[1:]
    if first in "(⌊":
        value, rest = _sum(rest, at)
        assert rest[0] in ")⌋"
        return (floor(value) if first == "⌊" else value), rest[1:]
    return (int(first) if first.isdigit() else at[first]), rest
