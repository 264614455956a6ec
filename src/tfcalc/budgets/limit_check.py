"""Check of one limit against one number: exact, and described in one line."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from tfcalc.budgets.limits import EQUALS, MAX, MAX_DECREASE, MAX_INCREASE, MIN, RELATIVE
from tfcalc.named_tuple import NamedTuple
from tfcalc.units import rounded, short, short_bytes

if TYPE_CHECKING:
    from tfcalc.budgets.limits import Limit

Value = int | float

WORDS: Mapping[str, str] = {
    MAX: "at most {}",
    MIN: "at least {}",
    EQUALS: "exactly {}",
    MAX_INCREASE: "at most +{}",
    MAX_DECREASE: "at most -{}",
}
UPPER = (MAX, MAX_INCREASE)
LOWER = (MIN, MAX_DECREASE)
IEC = "iec"
"""Units of powers of 1024 for bytes."""
NAMES = {"params": "parameters", "flops": "FLOPs", "bytes": "bytes"}


class AmountFormat(NamedTuple):
    """Format of amounts in a ``unit`` (params, flops, bytes, or ""); ``system`` is iec or si."""

    unit: str
    system: str = IEC

    def amount(self, value: Value | Fraction) -> str:
        """``4.00 GiB``, ``8.03B``, ``137G``, ``4,096``: three figures where they have a unit."""
        if self.unit == "bytes":
            return short_bytes(float(value), self.system)
        if self.unit:
            return short(_plain(value), billion="B" if self.unit == "params" else "G")
        number = _plain(value)
        return f"{number:,}" if isinstance(number, int) else rounded(number, 4)

    def pair(self, base: Value, value: Value) -> tuple[str, str]:
        """Return both amounts, in all digits where three figures are the same."""
        both = self.amount(base), self.amount(value)
        return both if both[0] != both[1] else (f"{base:,}", f"{value:,}")

    def change(self, base: Value, value: Value) -> str:
        """``4.00 GiB -> 8.00 GiB (+100.0 %)``."""
        if base == value:
            return f"{self.amount(value)} (unchanged)"
        old, new = self.pair(base, value)
        return f"{old} -> {new} ({percent_change(base, value)})"


def percent_change(base: Value, value: Value) -> str:
    """``+100.0 %``; the difference itself where the percentage would be 0 or undefined."""
    difference = exact(value) - exact(base)
    percent = f"{float(100 * difference / abs(exact(base))):+,.1f}" if base else ""
    return f"{percent} %" if percent.strip("+-") not in ("", "0.0") else f"{_plain(difference):+,}"


def exact(value: Value) -> Fraction:
    """Number as it is written in decimal."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def threshold(rule: str, limit: Limit, base: Value | None) -> Fraction:
    """Largest or smallest value that the rule allows; a relative rule needs the ``base``."""
    amount = exact(limit.value)
    if rule not in RELATIVE:
        return amount
    assert base is not None, "a relative limit has a base"
    before = exact(base)
    change = abs(before) * amount / 100 if limit.percent else amount
    return before + change if rule == MAX_INCREASE else before - change


def violated(rule: str, value: Value, allowed: Fraction) -> bool:
    """Return whether the value is beyond what is allowed."""
    number = exact(value)
    return number > allowed if rule in UPPER else number < allowed if rule in LOWER else number != allowed


def describe(rule: str, limit: Limit, told: AmountFormat, value: Value, base: Value | None, allowed: Fraction) -> str:
    """``4.00 GiB -> 8.00 GiB (+100.0 %), at most +10 % (max_increase)``; by how much it is over an absolute limit."""
    number = told.amount(value) if base is None else told.change(base, value)
    text = f"{number}, {WORDS[rule].format(limit.text.replace('%', ' %').replace('  ', ' '))} ({rule})"
    if rule in RELATIVE or rule == EQUALS or not violated(rule, value, allowed):
        return text
    distance = abs(exact(value) - allowed)
    return f"{text}, {told.amount(distance)} {'over' if rule in UPPER else 'under'}"


def _plain(value: Value | Fraction) -> Value:
    if not isinstance(value, Fraction):
        return value
    return int(value) if value.denominator == 1 else float(value)
