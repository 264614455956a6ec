"""A limit is read exactly, or rounded to where it decides the same."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tfcalc.budgets.limits import amount, warning


@pytest.mark.parametrize(
    ("written", "unit", "value"),
    [
        ("24GiB", "bytes", 24 * 1024**3),
        ("80GB", "bytes", 80 * 10**9),
        ("80 gb", "bytes", 80 * 10**9),
        ("8192B", "bytes", 8192),
        ("0B", "bytes", 0),
        (25769803776, "bytes", 25769803776),
        ("1.4B", "params", 1_400_000_000),
        ("7B", "params", 7 * 10**9),
        ("4_096", "params", 4096),
        (4096, "params", 4096),
        ("123,456,789", "params", 123_456_789),
        ("2T", "flops", 2 * 10**12),
        ("0.1T", "flops", 10**11),
        ("3.7e18", "flops", 37 * 10**17),
        (10**17 + 1, "flops", 10**17 + 1),  # no float has this value
        ("128Ki", "", 128 * 1024),
        (0.45, "", 0.45),
        ("5.5", "", 5.5),
    ],
)
def test_a_number_is_read_exactly(written: object, unit: str, value: float) -> None:
    read = amount(written, "max", unit)
    assert (read.value, read.percent) == (value, False)
    assert type(read.value) is type(value)


@pytest.mark.parametrize(("written", "value"), [("10%", 10.0), ("2.5 %", 2.5), ("0%", 0.0), ("300%", 300.0)])
def test_a_percentage_is_one_of_a_change(written: str, value: float) -> None:
    assert amount(written, "max_increase", "bytes") == (written, value, True)


@pytest.mark.parametrize("text", ["1.1GiB", "0.3GiB", "79.2GiB", "1.23456789KiB"])
def test_a_part_of_a_byte_decides_as_the_whole_amount_would(text: str) -> None:
    scale = 1024 if text.endswith("KiB") else 1024**3
    exact = Fraction(text[:-3]) * scale
    assert exact.denominator > 1
    most, least = (amount(text, rule, "bytes").value for rule in ("max", "min"))
    early, late = (warning(text, rule, "bytes").value for rule in ("max", "min"))
    for value in range(int(exact) - 2, int(exact) + 3):
        assert (value <= most) == (value <= exact)
        assert (value >= least) == (value >= exact)
        assert (value > early) == (value > exact)
        assert (value < late) == (value < exact)
