"""The values of a check as people read them: rounded, or in full where different ones would look equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.named_tuple import NamedTuple
from tfcalc.units import short, short_bytes

if TYPE_CHECKING:
    from tfcalc.budgets.checks import LimitCheck

MOST_DIGITS = 9
"""Decimal places of a change in per cent."""


class Amounts(NamedTuple):
    """``16.0 GiB``, ``32.0 GiB``, ``+100.0 %``; empty where there is no value to compare with."""

    before: str
    after: str
    change: str


def amounts(check: LimitCheck, units: str) -> Amounts:
    """The two values of a check, bytes in ``units`` (iec or si), and how far the second is from the first.

    A change is in per cent of the first value, and empty where that is 0 or the two are equal.
    """
    limit = None if check.limit_is_percent else check.limit_value
    given = {value for value in (check.base, check.value, limit) if value is not None}
    rounded = {value: _rounded(value, check.unit, units) for value in given}
    alike = len(set(rounded.values())) < len(given)
    before, after = (
        "" if value is None else _full(value, check.unit) if alike else rounded[value]
        for value in (check.base, check.value)
    )
    return Amounts(before, after, _change(check))


def _change(check: LimitCheck) -> str:
    """``+10.0 %``; with more digits where it is not the limit, but would be rounded to it."""
    if not check.base or check.value is None or check.base == check.value:
        return ""
    change = 100 * (check.value - check.base) / check.base
    limit = check.limit_value if check.limit_is_percent else None
    digits = next((some for some in (1, 3) if limit is None or round(abs(change), some) != limit), MOST_DIGITS)
    return f"{change:+,.{digits}f} %"


def _rounded(value: float, unit: str, units: str) -> str:
    if unit == "bytes":
        return short_bytes(value, units)
    if unit:
        return short(value, billion="B" if unit == "params" else "G")
    return _full(value, unit)


def _full(value: float, unit: str) -> str:
    digits = f"{value:,}"
    return f"{digits} B" if unit == "bytes" else digits
