"""A number as somebody wrote it: its unit, the values that round to it, and what is known of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted
from tfcalc.units import BYTES, IN_WORDS, SI

PARAMS, FLOPS, BYTES_UNIT, SIZE = "params", "flops", "bytes", "size"
LONGEST, LARGEST = 64, 10**40
REMEDY = "write 117M, 6.61B, 124,439,808, 13.5GB, 3.14e23 or 31.5T"

_NUMBER = re.compile(r"[~≈]?\s*(\d[\d,_]*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?\s*([A-Za-z][A-Za-z /-]*)?", re.ASCII)
WORDS = {**IN_WORDS, "m": "M", "b": "B", "g": "G", "t": "T"}
OF_UNIT = {
    "params": PARAMS,
    "param": PARAMS,
    "parameter": PARAMS,
    "parameters": PARAMS,
    "flops": FLOPS,
    "flop": FLOPS,
    "macs": FLOPS,
    "mac": FLOPS,
}

ROUNDED, CUT, CUT_FAR, ZEROS = 0.0, 0.75, 1.25, 0.5
"""What a reading costs: rounded; rounded down, and that by more than three quarters of the last figure; with zeros at
the end that only hold places."""
CUT_DOWN = "rounded down"
WIDEST = 2.0
"""No reading goes further from the number than this, as a fraction of it: 1 as it is rounded down, 1 to below 2."""
PLAIN_ZEROS = 3
"""So many zeros at the end of a number in full mean that it is rounded."""


class NumberReading(NamedTuple):
    """The values, from ``low`` to below ``high``, that are written so, if ``figures`` of its digits are meant.

    Where ``low`` equals ``high`` it is that value alone.
    """

    low: Fraction
    high: Fraction
    figures: int
    cost: float
    words: str

    def takes(self, value: Fraction) -> bool:
        """Return True if this value is written so."""
        return value == self.low if self.low == self.high else self.low <= value < self.high


class WrittenNumber(NamedTuple):
    """The number: its ``text``, ``value``, the ``scale`` of its prefix, its ``unit`` ("" where the text has none)."""

    text: str
    value: Fraction
    scale: int
    unit: str
    readings: tuple[NumberReading, ...]

    @property
    def power(self) -> int:
        """Power of 1,000 or of 1,024 that the prefix stands for; 0 where there is none."""
        return next((power for power in range(1, 7) if self.scale in (1000**power, 1024**power)), 0)

    @property
    def is_binary(self) -> bool:
        """True if the prefix is one of 1,024."""
        return self.power > 0 and self.scale == 1024**self.power

    def about(self, value: float) -> bool:
        """Return True if a reading of this value is worth asking for: quick, and true somewhat beyond all readings."""
        return abs(value - float(self.value)) <= float(self.value) * WIDEST

    def reading(self, value: Fraction) -> NumberReading | None:
        """The simplest reading that takes this value."""
        taking = (reading for reading in self.readings if reading.takes(value))
        return min(taking, key=lambda reading: reading.cost, default=None)


def asked_about(text: str) -> WrittenNumber:
    """The number that a question is about. Raises UsageError, with the text, where it has none, or several.

    >>> asked_about("does HF say 8.03B?").text, asked_about("are there 2,362,368 parameters in attention?").unit
    ('8.03B', 'params')
    """
    inside = numbers_in(text)
    if len(inside) > 1:
        raise UsageError(f"{quoted(text)} has {len(inside)} numbers", f"ask about one of them: {inside[0]}")
    if not inside and len(text.split()) >= OF_A_SENTENCE:
        raise UsageError(f"{quoted(text)} has no number, and names no concept", REMEDY)
    number = read(inside[0] if inside else text)
    return number if number.unit or not inside else number._replace(unit=_said_of(text))


def read(text: str) -> WrittenNumber:
    """The number that a text is.

    Raises UsageError, with the text, where it is none, or below 1.

    >>> read("117M").readings[0][:3]
    (Fraction(116500000, 1), Fraction(117500000, 1), 3)
    >>> read("124,439,808").readings[0].takes(Fraction(124439808)), read("12.6 GiB").unit
    (True, 'bytes')
    """
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= LONGEST else None
    found = _scaled((match[4] or "").strip()) if match else None
    if match is None or found is None:
        raise UsageError(f"{quoted(text)} is not a number", REMEDY)
    scale, unit = found
    whole, decimals = re.sub(r"[,_]", "", match[1]), match[2] or ""
    exponent = int(match[3] or 0)
    last = Fraction(10) ** (exponent - len(decimals)) * scale
    value = int(whole + decimals) * last
    if not 1 <= value < LARGEST:
        raise UsageError(f"{quoted(text)} is not a number from 1 to {float(LARGEST):.0e}", REMEDY)
    digits = (whole + decimals).lstrip("0")
    return WrittenNumber(text.strip(), value, scale, unit, tuple(_readings(value, last, digits, bool(decimals))))


_WORD = re.compile(
    r"(?<![\w.,-])[~≈]?\d[\w.,]*(?:\s*(?:[kKMGT]i?B|[MGTPE]FLOP[sS]?|[MBT]|million|billion|trillion)\b)?(?![\w-])"
)


def numbers_in(text: str) -> list[str]:
    """The numbers in a sentence; what has a hyphen is a name. None where it is all a number, or no sentence.

    >>> numbers_in("Why 124M, and not the 117M of the paper?"), numbers_in("12 million"), numbers_in("2,362 in an MHA")
    (['124M', '117M'], [], ['2,362'])
    """
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match and _scaled((match[4] or "").strip()):
        return []
    sentence = text.strip()[:LONGEST_SENTENCE]
    words = [found[0].rstrip(".,") for found in _WORD.finditer(sentence)] if _is_sentence(sentence) else []
    return [word for word in words if _is_number(word)]


def _is_sentence(text: str) -> bool:
    """Return whether a text begins with a word, or goes on with several."""
    return text[:1].isalpha() or sum(word.isalpha() for word in text.split()) >= OF_SENTENCE


OF_SENTENCE = 2
"""Words that a number has beside it in a sentence."""


def _is_number(word: str) -> bool:
    match = _NUMBER.fullmatch(word)
    return match is not None and _scaled((match[4] or "").strip()) is not None


LONGEST_SENTENCE = 500
OF_A_SENTENCE = 3
"""Words that are a sentence, and no number with its unit."""


def _said_of(text: str) -> str:
    """The unit that the words beside a number say; "" where they say none, or several."""
    words = (word.strip(",.;:?!()'\"").lower() for word in text[:LONGEST_SENTENCE].split())
    units = {OF_UNIT[word] for word in words if word in OF_UNIT}
    return units.pop() if len(units) == 1 else ""


def _readings(value: Fraction, last: Fraction, digits: str, pointed: bool) -> list[NumberReading]:
    zeros = 0 if pointed else len(digits) - len(digits.rstrip("0"))
    coarse = last * 10**zeros
    if last == 1:
        found = [NumberReading(value, value, len(digits), ROUNDED, "exactly")]
        zeros = zeros if zeros >= PLAIN_ZEROS else 0
    else:
        found = [NumberReading(value - last / 2, value + last / 2, len(digits), ROUNDED, "rounded")]
        far = value + last * 3 / 4
        found.append(NumberReading(value + last / 2, far, len(digits), CUT, CUT_DOWN))
        found.append(NumberReading(far, value + last, len(digits), CUT_FAR, CUT_DOWN))
    if zeros and zeros < len(digits):
        found.append(NumberReading(value - coarse / 2, value + coarse / 2, len(digits) - zeros, ZEROS, "rounded"))
    return found


def _scaled(suffix: str) -> tuple[int, str] | None:
    """Return the scale and the unit that follow a number; None where the suffix is neither."""
    if not suffix:
        return 1, ""
    lower = suffix.lower().removesuffix("/token").strip()
    for word, scale in BYTES.items():
        for ending in ("b", "bytes"):
            if lower == f"{word}{ending}" and (lower != "b") and not (word == "" and suffix == "B"):
                return scale, BYTES_UNIT
        if word.endswith("i") and lower == word:
            return scale, BYTES_UNIT
    words = re.findall(r"[A-Za-z]+", suffix)
    unit = OF_UNIT.get(words[-1].lower(), "")
    if unit:
        words.pop()
    elif len(words) == 1 and words[0].lower().endswith(("flops", "flop", "macs", "mac")):
        unit, words = FLOPS, [re.sub(r"(?i)(flops?|macs?)$", "", words[0])]
    prefix = " ".join(words)
    prefix = prefix if prefix in SI else WORDS.get(prefix.lower(), prefix)
    return (SI[prefix], unit) if prefix in SI else None


SAID_ROUNDED, SAID_CUT = 0.25, 0.5
FURTHEST = 10
"""Nobody says a size that is off by more than one part in so many."""


class Said(NamedTuple):
    """A size as it is said, and what it costs to say it so."""

    size: int
    text: str
    cost: float


def nominal(size: int, most_figures: int = 2) -> list[Said]:
    """The size with one figure or a few, rounded or cut, and how it is said; nothing where that is the size itself.

    >>> nominal(6_738_415_616)
    [Said(size=7000000000, text='7B', cost=0.25), Said(size=6700000000, text='6.7B', cost=0.25)]
    >>> [one.text for one in nominal(1_557_611_200)]
    ['1.6B', '1.5B']
    """
    found: dict[int, Said] = {}
    for figures in range(1, most_figures + 1):
        scale = 10 ** max(0, len(str(size)) - figures)
        rounded, cut = (2 * size + scale) // (2 * scale) * scale, size // scale * scale
        for said, cost in ((rounded, SAID_ROUNDED), (cut, SAID_CUT)):
            if said not in (size, *found) and abs(said - size) * FURTHEST <= size:
                text = f"{said / 10**9:g}B" if said >= 10**9 else f"{said / 10**6:g}M"
                found[said] = Said(said, text, cost)
    return list(found.values())


ERRATA = Path(__file__).with_name("errata.jsonl")
"""A line each: the preset, the number, what is known of it, and where that stands."""


def corrected(given: WrittenNumber, preset: str) -> Iterator[str]:
    """Tell what is known of this number of this preset, a sentence each."""
    for line in ERRATA.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["preset"] == preset and entry["number"] == given.value:
            yield f"{given.text} {entry['words']} ({entry['source']})"
