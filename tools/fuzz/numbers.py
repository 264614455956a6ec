"""Numbers as people write them: each is read as the exact number that it was written from, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from tfcalc import units
from tools.fuzz.material import NUMBERS, SIZES
from tools.fuzz.mutations import edited
from tools.fuzz.parsed import holds, parsed

SI = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12, "P": 15, "E": 18}
IEC = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
BYTES_SI = {"B": 0, "kB": 3, "MB": 6, "GB": 9, "TB": 12, "PB": 15, "gb": 9, "Gbytes": 9, "mb": 6, "KB": 3}
BYTES_IEC = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50, "Gi": 30, "gib": 30, "Mi": 20, "kib": 10, "Pi": 50}
OTHER = ["m", "Z", "Pi", "kk", "iB", "bit", "GiBs", "%", "é", "k i", "GI b"]
BYTES_WITHOUT = ["", "G", "m", "E", "EB", "bit", "GiBs", "%", "é", "GI b"]
AMOUNTS = ["80GB", "79.2 GiB", "24GiB", "512 MB", "8192B", "1e3GB", "0.5TiB", "1,000MB", "4_096 KiB"]
TEXTS = [*SIZES, *NUMBERS, *AMOUNTS, "1.4T", "128Ki", "989T", "3.5k", "1,000,000"]
LARGEST = 10**30


class Written(NamedTuple):
    """A number as somebody writes it: the text without its unit, the unit, and the exact value of the text."""

    text: str
    unit: str
    value: Fraction


def number(draw: random.Random) -> Written:
    """A number put together of its parts, so that its value is known without reading it."""
    digits = draw.choice((1, 1, 2, 3, 4, 6, 9, 13, 20))
    whole = draw.randrange(10**digits)
    style = draw.random()
    text = f"{whole:,}" if style < 0.2 else f"{whole:_}" if style < 0.4 else str(whole)
    if style > 0.9:
        text = "0" * draw.choice((1, 2)) + text
    value = Fraction(whole)
    if draw.random() < 0.4:
        decimals = "".join(draw.choice("0123456789") for _ in range(draw.choice((0, 1, 1, 2, 3, 9))))
        text += f".{decimals}"
        value += Fraction(int(decimals or 0), 10 ** len(decimals))
    if draw.random() < 0.25:
        exponent = draw.choice((0, 1, 2, 3, 6, 9, 12, 15, 20, 30, 99, 999, -1, -2, -3, -20, -999))
        text += f"{draw.choice('eE')}{draw.choice(('', '+')) if exponent >= 0 else ''}{exponent}"
        value *= Fraction(10) ** exponent
    sign = draw.choice(("", "", "", "", "", "+", "-"))
    return Written(sign + text, "", -value if sign == "-" else value)


def numbers(draw: random.Random) -> None:
    """One number for one of the parsers: put together, with its value; or edited, where only laws are known."""
    parse = draw.choice((_count, _length, _amount, _bytes))
    if draw.random() < 0.6:
        parse(draw, number(draw))
    elif draw.random() < 0.7:
        text = edited(draw, draw.choice(TEXTS), TEXTS)
        _any(draw, text)
    else:
        _printed(draw)


def _spaced(draw: random.Random, written: Written, unit: str) -> str:
    space = draw.choice(("", "", "", " ", "  "))
    around = draw.choice(("", "", "", " "))
    return f"{around}{written.text}{space if unit else ''}{unit}{around}"


def _check(what: str, text: str, parse: Callable[[str], float], expected: Fraction | float | None) -> None:
    """Read as expected; refused where nothing is."""
    found = parsed(what, text, lambda: parse(text))
    holds(f"{what} is exact", found == expected and type(found) in (int, float, type(None)), text, found, expected)


def _scaled(value: Fraction, unit: str, si: dict[str, int], iec: dict[str, int]) -> Fraction | None:
    if unit in si:
        return value * Fraction(10 ** si[unit])
    return value * Fraction(2 ** iec[unit]) if unit in iec else None


def _count(draw: random.Random, written: Written) -> None:
    unit = draw.choice((*SI, *IEC, "", "", "", draw.choice(OTHER)))
    text = _spaced(draw, written, unit)
    large = unit in ("b", "m", "t") and text.endswith(unit) and text[-2:-1].isdigit()  # 3b is 3B
    value = _scaled(written.value, unit.upper() if large else unit, SI, IEC)
    possible = value is not None and value.denominator == 1 and abs(value) <= LARGEST and len(text) <= 64
    _check("count", text, units.parse_count, value if possible else None)


def _length(draw: random.Random, written: Written) -> None:
    unit = draw.choice((*SI, *IEC, "k", "K", "M", ""))
    binary = {"k": 10, "K": 10, "M": 20}
    value = written.value * 2 ** binary[unit] if unit in binary else _scaled(written.value, unit, SI, IEC)
    text = _spaced(draw, written, unit)
    possible = value is not None and value.denominator == 1 and abs(value) <= LARGEST and len(text) <= 60
    if len(text) <= 60:  # an i is put behind the unit
        _check("length", text, units.parse_length, value if possible else None)


def _amount(draw: random.Random, written: Written) -> None:
    unit = draw.choice((*SI, *IEC, "", "", draw.choice(OTHER)))
    value, text = _scaled(written.value, unit, SI, IEC), _spaced(draw, written, unit)
    possible = value is not None and abs(value) <= LARGEST and float(value) > 0 and len(text) <= 64
    _check("amount", text, units.parse_amount, float(value) if possible and value is not None else None)


def _bytes(draw: random.Random, written: Written) -> None:
    unit = draw.choice((*BYTES_SI, *BYTES_IEC, *BYTES_WITHOUT))
    value, text = _scaled(written.value, unit, BYTES_SI, BYTES_IEC), _spaced(draw, written, unit)
    possible = value is not None and 1 <= value <= LARGEST and len(text) <= 64
    _check("bytes", text, units.parse_bytes, value // 1 if possible and value is not None else None)


def _any(draw: random.Random, text: str) -> None:
    """Whatever it is, it is read as the same however often, and what is read is what it prints."""
    what, parse = draw.choice(PARSERS)
    found = parsed(what, text, lambda: parse(text))
    if found is None:
        return
    holds(f"{what} of edited text has an end", abs(found) <= float(LARGEST) and found == found, text, found)
    if what in ("count", "length"):
        holds(f"{what} of edited text is whole", type(found) is int, text, found)
        holds(f"{what} of what it prints", parse(str(found)) == found, text, found)
    elif what == "bytes":
        holds("bytes of what they print", type(found) is int and found > 0 and parse(f"{found}B") == found, text, found)
    else:
        holds("an amount is above 0", found > 0, text, found)


PARSERS: list[tuple[str, Callable[[str], float]]] = [
    ("count", units.parse_count),
    ("length", units.parse_length),
    ("amount", units.parse_amount),
    ("bytes", units.parse_bytes),
]


def _printed(draw: random.Random) -> None:
    """What tfcalc prints of a number, it reads again."""
    size = draw.randrange(10 ** draw.choice((1, 2, 3, 4, 6, 9, 12, 18, 21)))
    holds("a grouped number is read", units.parse_count(units.grouped(size)) == size, size)
    holds("tokens are read as printed", units.parse_length(units.short_tokens(size)) == size, size)
    if not size:
        return
    for system in ("iec", "si"):
        shown = units.short_bytes(size, system)
        found = parsed("bytes", shown, lambda shown=shown: units.parse_bytes(shown))  # type: ignore[misc]
        off = abs((found or 0) - size)
        holds(f"bytes are read as printed, to three figures ({system})", off <= size / 199 + 1, size, shown, found)
    shown = units.short(size)
    about = parsed("amount", shown, lambda: units.parse_amount(shown))
    holds("short numbers are read, to three figures", abs((about or 0) - size) <= size / 199, size, shown, about)
