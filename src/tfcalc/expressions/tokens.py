"""A text as numbers, names and signs, each with its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fractions import Fraction

from tfcalc.errors import UsageError, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.units import parse_bytes, parse_count

LONGEST = 8_000
"""Characters of a text."""

DIGITS = 40
"""Characters of a number."""

LARGEST_EXPONENT_OF_TEN = 30
PERCENT = "%"
NUMBER, QUANTITY, NAME, SIGN, COMPARE, POWER, END = "number", "quantity", "name", "sign", "compare", "power", "end"

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SIGNS = {"·": "*", "⋅": "*", "∙": "*", "×": "*", "÷": "/", "∕": "/", "−": "-", "–": "-", "**": "^"}
COMPARISONS = {"==": "=", "≤": "<=", "≥": ">=", "=<": "<=", "=>": ">="}

_LETTER = "A-Za-zα-ωΑ-Ω"
_WORD = f"[{_LETTER}][{_LETTER}0-9_]*"
_PATH = rf"{_WORD}(?:\[[0-9,-]*\])?(?:\.[{_LETTER}0-9_]+(?:\[[0-9,-]*\])?)*"
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_REST = rf"""
    (?P<number>{_NUMBER})
  | (?P<power>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
  | (?P<compare><=|>=|==|=<|=>|[=<>≤≥])
  | (?P<sign>\*\*|[-+*/^(),⌊⌋·⋅∙×÷∕−–])
"""
FORMULA = re.compile(rf"\s*(?:(?P<name>{_WORD})|{_REST})", re.VERBOSE)
CONDITION = re.compile(rf"\s*(?:(?P<name>{_PATH})|{_REST})", re.VERBOSE)
_COUNT_UNIT = re.compile(rf"(?:[kKMGBTP]|[KMGT]i)(?![{_LETTER}0-9_.\[])")
_BYTES_UNIT = re.compile(rf"(?:[kKMGTP]i?B|[KMGTP]iB)(?![{_LETTER}0-9_.\[])", re.IGNORECASE)

REMEDIES = {
    "[": "brackets are ( and )",
    "{": "brackets are ( and )",
    "\\": "write it without LaTeX: 4h^2 + 4h",
    "!": "compare with =, <=, >=, < or >",
    "%": "write a fraction: 0.05",
    "√": "exponents are whole numbers",
    "⌈": "write a ceiling as ⌊(a + b - 1)/b⌋",
}


class Token(NamedTuple):
    """A piece of the text: its kind, what it is, where it begins (counted from 1), and the value of a number."""

    kind: str
    text: str
    at: int
    value: Fraction = Fraction()
    unit: str = ""


def fault(text: str, at: int, what: str, remedy: str) -> UsageError:
    """Error in a text, with its place."""
    return UsageError(f"{quoted(text)} at character {at}: {what}", remedy)


def tokens(text: str, names: Collection[str] | None, *, conditions: bool = False) -> Iterator[Token]:
    """The pieces of a text, its end included. ``names`` are those known; None: each word is one.

    Raises UsageError for a text that is too long, and for what is no piece of a formula.
    """
    if len(text) > LONGEST:
        raise UsageError(f"{quoted(text)} has {len(text):,} characters", f"a formula has at most {LONGEST:,}")
    place, end = 0, len(text.rstrip())
    while place < end:
        found = (CONDITION if conditions else FORMULA).match(text, place)
        if found is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            character = text[start]
            raise fault(text, start + 1, f"{quoted(character)} is no part of a formula", _remedy(character))
        kind = found.lastgroup or END
        word, start, place = found[kind], found.start(kind), found.end()
        if kind == NAME:
            calls = word in ("min", "floor") and text[place:].lstrip().startswith("(")
            yield from [Token(SIGN, word, start + 1)] if calls else _named(text, word, start, names)
        elif kind == NUMBER:
            unit = _unit(text, place) if conditions else ""
            place += len(unit)
            yield (_quantity if unit else _number)(text, word, unit, start)
        elif kind == POWER:
            yield Token(POWER, word.translate(SUPERSCRIPTS), start + 1)
        else:
            yield Token(kind, (SIGNS | COMPARISONS).get(word, word), start + 1)
    yield Token(END, "", end + 1)


def _remedy(character: str) -> str:
    return REMEDIES.get(character, "a formula has numbers, letters, + - * / ^ and brackets")


def _read(text: str, number: str, start: int) -> Fraction:
    exponent = number.lower().partition("e")[2]
    if len(number) > DIGITS or abs(int(exponent or 0)) > LARGEST_EXPONENT_OF_TEN:
        raise fault(text, start + 1, f"{quoted(number)} is too large or too long", "is it a typo?")
    return Fraction(number.replace(",", "").replace("_", ""))


def _unit(text: str, place: int) -> str:
    found = _BYTES_UNIT.match(text, place) or _COUNT_UNIT.match(text, place)
    return found[0] if found else PERCENT if text.startswith(PERCENT, place) else ""


def _number(text: str, number: str, _unit: str, start: int) -> Token:
    return Token(NUMBER, number, start + 1, _read(text, number, start))


def _quantity(text: str, number: str, unit: str, start: int) -> Token:
    written = number + unit
    if unit == PERCENT:
        return Token(QUANTITY, written, start + 1, _read(text, number, start) / 100)
    in_bytes = unit.endswith(("B", "b")) and len(unit) > 1
    try:
        _read(text, number, start)
        value = parse_bytes(written) if in_bytes else parse_count(written)
    except UsageError as error:
        raise fault(text, start + 1, error.message, error.hint) from None
    return Token(QUANTITY, written, start + 1, Fraction(value), "bytes" if in_bytes else "")


def _named(text: str, word: str, start: int, names: Collection[str] | None) -> Iterator[Token]:
    """The names that a word consists of, the longest first; the whole word where every word is one."""
    if names is None or word in names:
        yield Token(NAME, word, start + 1)
        return
    if word in ("x", "X"):
        yield Token(SIGN, "*", start + 1)
        return
    pieces, reached = _pieces(word, names)
    if not pieces:
        raise fault(text, start + reached + 1, *_unknown(word, reached, names))
    for piece in pieces:
        yield Token(NAME, piece, start + 1)
        start += len(piece)


def _pieces(word: str, names: Collection[str]) -> tuple[list[str], int]:
    """The word as known names, each the longest that leaves a rest which is names, too; else how far names reach."""
    lengths = sorted({len(name) for name in names if name}, reverse=True)
    length_at: dict[int, int] = {}
    for place in range(len(word) - 1, -1, -1):
        for length in lengths:
            after = place + length
            if (after == len(word) or after in length_at) and word[place:after] in names:
                length_at[place] = length
                break
    if 0 not in length_at:
        reached = 0
        while longest := next((n for n in lengths if word[reached : reached + n] in names and reached < len(word)), 0):
            reached += longest
        return [], reached if reached < len(word) else 0
    pieces, place = [], 0
    while place < len(word):
        pieces.append(word[place : place + length_at[place]])
        place += length_at[place]
    return pieces, place


def _unknown(word: str, reached: int, names: Collection[str]) -> tuple[str, str]:
    rest = word[reached:]
    if rest[0].isdigit():
        digits = re.match("[0-9]+", rest)
        number = digits[0] if digits else rest
        return f"the number {number} follows a letter in {quoted(word)}", f"write ^{number} or *{number}"
    known = sorted(names, key=lambda name: (len(name), name))
    what = (
        f"{quoted(rest)} is no known letter or name"
        if not reached
        else f"{quoted(rest)} in {quoted(word)} is not known"
    )
    return what, nearest(rest, known)
