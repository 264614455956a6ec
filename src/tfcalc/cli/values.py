"""The value of an option, whether it came as text or as a TOML value."""

from __future__ import annotations

from typing import Any

from tfcalc.cli.options import MODEL, Option
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, UsageError, one_of
from tfcalc.printable import quoted
from tfcalc.units import parse_amount, parse_count, parse_length

Value = int | float | str | bool | tuple[str, ...] | tuple[int, ...] | range

LONGEST, LONGEST_LIST, MOST = 10_000, 1_000_000, 1_000
"""Characters of a text and of a list of numbers, and texts of an option that takes several: more than anybody types,
and few enough for whatever compares them with names."""

TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def read(option: Option, raw: Any, called: str) -> Value:
    """One value of an option, which is ``called`` so where it was given. Raises UsageError."""
    for text in raw if option.several else (raw,):
        if isinstance(text, str) and len(text) > (LONGEST_LIST if option.spreads else LONGEST):
            fact = f"{called} {quoted(text)} has {len(text):,} characters"
            raise UsageError(fact, f"give at most {LONGEST_LIST if option.spreads else LONGEST:,}")
    if option.several:
        if len(raw) > MOST:
            raise UsageError(f"{called} is given {len(raw):,} times", f"give it at most {MOST:,} times")
        return tuple(raw)
    if option.switch:
        return _switch(raw, called)
    if option.number:
        return _spread(option, raw, called) if option.spreads else _number(option, raw, called)
    if option.amount:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise UsageError(f"{called} {quoted(raw)} is not a number", "give a number above 0")
        try:
            return parse_amount(raw)
        except UsageError as error:
            raise UsageError(f"{called} {error.message}", error.hint) from None
    if not isinstance(raw, str):
        raise UsageError(f"{called} {quoted(raw)} is not text", "put it in quotes")
    if option.flags and not raw.strip() and option.name != MODEL.name:  # a model without a name is not known: 3
        raise UsageError(f"{called} {quoted(raw)} is empty", "give it a value, or leave it out")
    return one_of(called, option.spellings.get(raw.lower(), raw), option.known) if option.known else raw


def readable(option: Option, raw: object) -> bool:
    """Whether an option takes this value."""
    try:
        read(option, raw, "")
    except UsageError:
        return False
    return True


def _spread(option: Option, raw: Any, called: str) -> Value:
    """One number, or several: of a TOML list, too."""
    from tfcalc.cli.ranges import spread  # few commands take them

    text = ",".join(map(str, raw)) if isinstance(raw, list) else raw
    if not isinstance(text, str):
        return _number(option, text, called)
    values = spread(text, called, lambda each: _number(option, each, called))
    return values if isinstance(values, int | range) else tuple(values)


def _number(option: Option, raw: object, called: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        hint = f"give an integer of at least {option.least}"
        raise UsageError(f"{called} {quoted(raw)} is not a whole number", hint)
    try:
        number = parse_length(raw) if option.length else parse_count(raw)
    except UsageError as error:
        raise UsageError(f"{called} {error.message}", error.hint) from None
    try:
        check_size(called, number, option.least, option.most)
    except InvalidModel as error:
        raise UsageError(error.message, error.hint) from None
    return number


def _switch(raw: object, called: str) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).lower()
    if word not in (*TRUE, *FALSE):
        raise UsageError(f"{called} {quoted(raw)} is neither true nor false", "write true or false")
    return word in TRUE
