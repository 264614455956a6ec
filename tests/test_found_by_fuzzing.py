"""What `make fuzz` found, each as a test of its own; the fuzzer tries the same and more."""

from __future__ import annotations

import pytest

from tfcalc.errors import UsageError
from tfcalc.hardware import named
from tfcalc.units import parse_amount, parse_count, parse_length


@pytest.mark.parametrize("parse", [parse_amount, parse_count, parse_length])
@pytest.mark.parametrize("text", ["-1e999", "-1.476e999Ti", "9" * 31, "-" + "9" * 40, "1e31"])
def test_a_number_beyond_all_sizes_is_refused_with_either_sign(parse: object, text: str) -> None:
    """10^30 is the end for all spellings; -1e999 was an OverflowError, and 31 digits were read where 1e31 was not."""
    assert callable(parse)
    with pytest.raises(UsageError, match="is too large"):
        parse(text)


@pytest.mark.parametrize("amount", ["0GB", "000GiB", "9" * 400 + "GB", "9" * 5000 + "GB"])
def test_no_card_has_an_absurd_amount_of_memory(amount: str) -> None:
    """0 GB divided by zero; a number beyond floats, or of over 4,300 digits, is none that Python reads as an int."""
    with pytest.raises(UsageError, match=r"no accelerator .* is known"):
        named(f"nvidia a100 {amount}")
