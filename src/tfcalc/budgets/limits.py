"""Limits as people write them: ``24GiB``, ``1.4B``, ``10%``; read exactly, in the unit of the metric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted, shortened
from tfcalc.search.gpus import of_card
from tfcalc.units import exact, exact_bytes, is_bytes

if TYPE_CHECKING:
    from fractions import Fraction

MAX, MIN, EQUALS, MAX_INCREASE, MAX_DECREASE = RULES = ("max", "min", "equals", "max_increase", "max_decrease")
FITS_GPU = "fits_gpu"
"""The rule of verdicts: the memory fits on this card."""
RELATIVE = (MAX_INCREASE, MAX_DECREASE)
"""The rules that compare with an earlier value; only these know percentages."""

COUNTED = {"params": "parameters", "flops": "FLOPs", "bytes": "bytes"}
"""Names of the units of metrics."""
FORMS = {
    "params": "write 1.4B, 125M, 4_096 or 124439808",
    "flops": "write 2T, 1.5e12, 4_096 or 136160477184",
    "bytes": "write 24GiB, 80GB or a number of bytes",
    "": "write 4096, 4_096, 1.5 or 2M",
}
LARGEST_PERCENTAGE = 1_000_000


class Limit(NamedTuple):
    """Limit as it was written, and as it was read.

    ``value`` is in the unit of the metric; of a percentage it is the per cent (10.0). It is rounded only where that
    decides nothing: no whole number lies between 1.1 GiB and the value of ``max = "1.1GiB"``.
    """

    text: str
    value: int | float
    percent: bool


def fitting(card: str) -> Limit:
    """Limit by a card: as many bytes as may be allocated on it; the allocator has to find room for them, too.

    Raises UsageError where no such card is known.

    >>> fitting("24GB").text, fitting("h100").value
    ('24GB', 77992034303)
    """
    try:
        return Limit(card, of_card(card).allocatable, percent=False)
    except UsageError as error:
        hint, _, _ = error.hint.partition("; or give")
        raise UsageError(f"{FITS_GPU}: {error.message}", hint.partition(" or give")[0]) from None


def amount(written: object, rule: str, unit: str) -> Limit:
    """Read ``rule = written`` for a metric in ``unit``: "params", "flops", "bytes", or "" where it has none.

    Raises UsageError, with the text, where it is no number, or one of another unit.

    >>> amount("24GiB", "max", "bytes")
    Limit(text='24GiB', value=25769803776, percent=False)
    >>> amount("1.4B", "max", "params").value, amount(4096, "equals", "params").value, amount("10%", "max_increase", "")
    (1400000000, 4096, Limit(text='10%', value=10.0, percent=True))
    """
    return _amount(written, rule, unit, rule)


def warning(written: object, rule: str, unit: str) -> Limit:
    """Read ``warn = written`` beside a limit by ``rule``: beyond this value there is a warning.

    >>> warning("20GiB", "max", "bytes")
    Limit(text='20GiB', value=21474836480, percent=False)
    """
    return _amount(written, "warn", unit, rule)


def _amount(written: object, called: str, unit: str, rule: str) -> Limit:
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise UsageError(f"{called} {quoted(written)} is not a number", FORMS[unit])
    text = written.strip() if isinstance(written, str) else f"{written}"
    try:
        if text.endswith("%"):
            return Limit(text, _percentage(text, rule, unit), percent=True)
        value = _value(written, unit)
        if value < 0:
            raise UsageError(f"{shortened(text, 40)} is below 0", _positive(rule))
        if value.denominator == 1:
            return Limit(text, int(value), percent=False)
        if not unit:
            return Limit(text, float(value), percent=False)
        if rule == EQUALS:
            below = math.floor(value)
            raise UsageError(f"{text} is not a whole number", f"the nearest are {below} and {below + 1}")
        return Limit(text, math.ceil(value) if rule == MIN else math.floor(value), percent=False)
    except UsageError as error:
        raise UsageError(f"{called} {error.message}", error.hint) from None


def _percentage(text: str, rule: str, unit: str) -> float:
    if rule not in RELATIVE:
        raise UsageError(f"{quoted(text)} is a percentage", f"{FORMS[unit]}, or limit max_increase or max_decrease")
    value = float(exact(text[:-1], "write 10% or 2.5%"))
    if not 0 <= value <= LARGEST_PERCENTAGE:
        raise UsageError(f"{quoted(text)} is not a change from 0% to {LARGEST_PERCENTAGE}%", _positive(rule))
    return value


def _positive(rule: str) -> str:
    other = {MAX_INCREASE: "; max_decrease limits what goes down", MAX_DECREASE: "; max_increase limits what goes up"}
    return "give 0 or more" + other.get(rule, "")


def _value(written: float | str, unit: str) -> Fraction:
    """The number exactly: of bytes with its own unit or as a whole number, of all else with a prefix."""
    if isinstance(written, str) and unit == "bytes":
        return exact_bytes(written, FORMS[unit])
    if isinstance(written, str) and is_bytes(written):
        counted = f"it counts {COUNTED[unit]}" if unit else "it has another unit, or none"
        raise UsageError(
            f"{quoted(written)} is an amount of memory, and the metric is not", f"{counted}: {FORMS[unit]}"
        )
    return exact(written if isinstance(written, str) else f"{written}", FORMS[unit])
