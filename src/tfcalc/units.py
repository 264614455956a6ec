"""Parsing and printing of numbers with units: counts, lengths, amounts of memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
IN_WORDS = {"thousand": "k", "million": "M", "mn": "M", "mio": "M", "billion": "B", "bn": "B", "trillion": "T"}
"""Prefixes as people write them out."""
IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
BYTES |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50}

_NUMBER = r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]*)"
_LONGEST = 64
_ABSURD = 10**30
_PLAIN = 30
"""Largest number of digits that is certainly below ``_ABSURD``."""

LARGEST_PREFIX = 1e18
MOST_IN_FULL = 1e6
"""Numbers of the largest unit from which on three significant digits are printed."""


def parse_count(text: str | int) -> int:
    """Parse a whole number: ``512``, ``4_096``, ``128k`` (128,000), ``128Ki`` (131,072), ``7B``, ``1.4T``, ``1e12``.

    ``3b`` is 3B, as nobody counts in thousandths; ``100 million`` is 100M.

    Raises UsageError, with the text, if it is no whole number.

    >>> parse_count("1.4T"), parse_count("4_096"), parse_count("128Ki"), parse_count("3b"), parse_count("100 million")
    (1400000000000, 4096, 131072, 3000000000, 100000000)
    """
    if isinstance(text, int):
        return text
    if len(text) <= _PLAIN and text.isascii() and text.isdigit():
        return int(text)
    large = text.upper() if text[-1:] in ("b", "m", "t") and text[-2:-1].isdigit() else text
    value = exact(large, "write 512, 4_096, 128k, 128Ki, 7B or 1e12")
    if value.denominator != 1:
        below = value.numerator // value.denominator
        raise UsageError(f"{text!r} is not a whole number", f"the nearest are {below} and {below + 1}")
    return int(value)


def parse_length(text: str | int) -> int:
    """Parse a length in tokens, with k = 1,024 as for context lengths: ``8k`` is 8,192, ``128k`` 131,072, ``1M`` 2²⁰.

    Raises UsageError as :func:`parse_count`.

    >>> parse_length("8k"), parse_length("128K"), parse_length("1M"), parse_length("4_096"), parse_length("1.5k")
    (8192, 131072, 1048576, 4096, 1536)
    """
    if isinstance(text, str) and text.strip()[-1:] in ("k", "K", "M"):
        text = f"{text.strip()}i".replace("k", "K")
    return parse_count(text)


def parse_amount(text: str | float) -> float:
    """Parse a positive number, such as a rate: ``3500``, ``3.5k``, ``989e12``, ``989T``.

    Raises UsageError, with the text, if it is none.

    >>> parse_amount("3.5k"), parse_amount("989T")
    (3500.0, 989000000000000.0)
    """
    value = exact(text, "write 3500, 3.5k, 989e12 or 989T") if isinstance(text, str) else text
    if value > _ABSURD:
        raise UsageError(f"{quoted(text)} is too large", "is it a typo?")
    if not float(value) > 0:
        raise UsageError(f"{quoted(text)} is not above 0", "give a positive number")
    return float(value)


def parse_bytes(text: str) -> int:
    """Parse an amount of memory with its unit: ``80GB`` (10⁹), ``80GiB`` or ``80Gi`` (2³⁰), ``512 MB``, ``8192B``.

    Rounds down to whole bytes. Raises UsageError, with the text, if it is no amount, or has no unit: GB and GiB differ
    by 7 %.

    >>> parse_bytes("80GB"), parse_bytes("80GiB"), parse_bytes("79.2 GiB")
    (80000000000, 85899345920, 85040352460)
    """
    size = int(exact_bytes(text, "write 80GB, 79.2GiB, 512MB or 24GiB"))
    if size < 1:
        raise UsageError(f"{text.strip()!r} is not above 0", "give more than 0 bytes")
    return size


def exact_bytes(text: str, remedy: str) -> Fraction:
    """Parse an amount of memory like :func:`parse_bytes`, but without rounding, and with 0 allowed."""
    given = text.strip()
    match = re.fullmatch(_NUMBER, given, re.ASCII) if len(given) <= _LONGEST else None
    if match and match[2].lower() in ("", "k", "m", "g", "t", "p"):
        letter = (match[2] or "g").upper()
        binary, decimal = f"{match[1]}{letter}iB", f"{match[1]}{letter}B"
        wanting = "is ambiguous" if match[2] else "has no unit"
        raise UsageError(f"{given!r} {wanting}", f"say {binary} (powers of 1024) or {decimal} (powers of 1000)")
    return exact(text, remedy, _byte_units())


def is_bytes(text: str) -> bool:
    """Return whether a text has a unit of memory, not of a count: ``24GiB``, ``80GB``, but not ``7B`` or ``128Ki``."""
    unit = re.sub(r"[^A-Za-z]", "", text[:_LONGEST]).lower()
    return unit in _byte_units() and unit != "b" and not unit.endswith("i")


def _byte_units() -> dict[str, int]:
    units = {name + ending: scale for name, scale in BYTES.items() for ending in ("b", "bytes")}
    return units | {name: scale for name, scale in BYTES.items() if name.endswith("i")}


def exact(text: str, remedy: str, units: Mapping[str, int] | None = None) -> Fraction:
    """Parse a number exactly, as a fraction. Raises UsageError, with the text and the ``remedy``."""
    match = re.fullmatch(_NUMBER, text.strip(), re.ASCII) if len(text) <= _LONGEST else None
    scale = _scale(match[2], units) if match else None
    if match is None or scale is None:
        raise UsageError(f"{text[:_LONGEST]!r} is not a number", remedy)
    from fractions import Fraction  # rarely needed: plain digits are read without it

    value = Fraction(match[1].replace("_", "").replace(",", "")) * scale
    if abs(value) > _ABSURD:
        raise UsageError(f"{text!r} is too large", "is it a typo?")
    return value


def _scale(unit: str, units: Mapping[str, int] | None) -> int | None:
    """Factor of a unit, by these ``units`` or as a count; None where it is none."""
    return units.get(unit.lower()) if units else (SI | IEC).get(IN_WORDS.get(unit.lower(), unit))


def grouped(number: int | float) -> str:
    """Format a number with thousands separators: ``44,140,544``."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


IN_DIGITS = 10**8
"""From here on a rounded number has an exponent."""


def rounded(number: float, digits: int = 3) -> str:
    """Format with this many significant digits, and zeros behind them rather than an exponent.

    >>> rounded(1690.3), rounded(1.914e6), rounded(0.01234), rounded(8.544e8, 4), rounded(10_340, 4), rounded(999.9)
    ('1,690', '1,910,000', '0.0123', '8.544e+08', '10,340', '1,000')
    """
    near = float(f"{number:.{digits}g}")
    return f"{near:,.0f}" if 10**digits <= abs(near) < IN_DIGITS else f"{number:,.{digits}g}"


def short(number: int | float, *, billion: str = "G") -> str:
    """Format with three significant digits and an SI prefix: ``44.1M``; for parameters ``billion`` is B.

    >>> short(44_140_544), short(512), short(999_999), short(3.14e23), short(7 * 10**9, billion="B")
    ('44.1M', '512', '1M', '3.14e+23', '7B')
    """
    if number < 0:
        return f"-{short(-number, billion=billion)}"
    rounded = float(f"{number:.3g}")
    if rounded >= LARGEST_PREFIX * 1000:
        return f"{number:.3g}"
    for scale, prefix in ((LARGEST_PREFIX, "E"), (1e15, "P"), (1e12, "T"), (1e9, billion), (1e6, "M"), (1e3, "k")):
        if rounded >= scale:
            return f"{rounded / scale:.3g}{prefix}"
    return f"{number}"


def short_tokens(count: int) -> str:
    """Format a length for :func:`parse_length`: 131,072 is ``128k``; in full if it is no multiple of 1,024.

    >>> short_tokens(131_072), short_tokens(2**20), short_tokens(514), short_tokens(10_000)
    ('128k', '1M', '514', '10000')
    """
    for scale, prefix in ((2**20, "M"), (2**10, "k")):
        if count and count % scale == 0:
            return f"{count // scale}{prefix}"
    return str(count)


def short_bytes(number: float, system: str = "iec") -> str:
    """Format bytes with three significant digits: ``168 MiB`` (iec, powers of 1024) or ``177 MB`` (si, powers of 1000).

    >>> short_bytes(176_562_176), short_bytes(176_562_176, "si"), short_bytes(75.39 * 2**30), short_bytes(1023 * 2**30)
    ('168 MiB', '177 MB', '75.4 GiB', '1,023 GiB')
    """
    base, names = (
        (1024, ("KiB", "MiB", "GiB", "TiB", "PiB")) if system == "iec" else (1000, ("kB", "MB", "GB", "TB", "PB"))
    )
    if number < 0:
        return f"-{short_bytes(-number, system)}"
    if number < base:
        return f"{number:.0f} B"
    power = 1
    while number >= base ** (power + 1) and power < len(names):
        power += 1
    size = number / base**power
    if size >= MOST_IN_FULL:
        return f"{size:.3g} {names[power - 1]}"
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:,.{digits}f} {names[power - 1]}"


def bytes_in_words(number: float, system: str = "iec") -> str:
    """Exact bytes, and the same as people say it.

    >>> bytes_in_words(497_759_232), bytes_in_words(512)
    ('497,759,232 bytes (475 MiB)', '512 bytes')
    """
    said = short_bytes(number, system)
    return f"{number:,} bytes" + ("" if said.endswith(" B") else f" ({said})")


HOURS = 7200
"""Seconds from which a time is told in hours."""


def short_seconds(seconds: float) -> str:
    """``43 ms``, ``1.7 s``.

    >>> short_seconds(0.0431), short_seconds(1.72), short_seconds(0.00042), short_seconds(0.0997), short_seconds(27_748)
    ('43 ms', '1.7 s', '0.42 ms', '100 ms', '7.7 h')
    """
    if seconds >= HOURS:
        number, unit = seconds / 3600, "h"
    else:
        number, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    return f"{number:,.2g} {unit}" if number < 99.5 else f"{number:,.0f} {unit}"  # 99.7 is 1e+02 in two digits


def in_full(count: int, billion: str = "G") -> str:
    """A count as people write it, without a digit less than it has: ``1.4B``, ``1,234,567``.

    >>> in_full(1_400_000_000, "B"), in_full(1_234_567), in_full(10**23)
    ('1.4B', '1,234,567', '1e+23')
    """
    said = short(count, billion=billion)
    try:
        return said if parse_count(said) == count else f"{count:,}"
    except UsageError:  # beyond all that has a prefix
        return f"{count:,}"
