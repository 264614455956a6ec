"""What `make fuzz` found, each as a test of its own; the fuzzer tries the same and more."""

from __future__ import annotations

import pytest

from tfcalc.errors import UsageError
from tfcalc.units import parse_amount, parse_count, parse_length


@pytest.mark.parametrize("parse", [parse_amount, parse_count, parse_length])
@pytest.mark.parametrize("text", ["-1e999", "-1.476e999Ti", "9" * 31, "-" + "9" * 40, "1e31"])
def test_a_number_beyond_all_sizes_is_refused_with_either_sign(parse: object, text: str) -> None:
    """10^30 is the end for all spellings; -1e999 was an OverflowError, and 31 digits were read where 1e31 was not."""
    assert callable(parse)
    with pytest.raises(UsageError, match="is too large"):
        parse(text)
