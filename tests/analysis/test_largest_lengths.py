"""The largest length where one that is no multiple of 8 takes more: kernels fill it up, and copy."""

from __future__ import annotations

from tfcalc.analysis.sizes import Size, largest_of


def _padded(length: int) -> int:
    """1,000 bytes a token, and half as many again where the length is no multiple of 8."""
    return 1000 * length * (2 if length % 8 == 0 else 3) // 2


def test_a_longer_multiple_is_found_behind_a_length_that_does_not_fit() -> None:
    """Within 16,300,000 bytes: 16,300 tokens as multiples of 8, and 127 · 128 = 16,256 of these.

    64 · 252 = 16,128 is tried first and fits, 16,129 is tried then and does not.
    """
    found = largest_of(Size("seq_len", "--seq", 252, _padded, length=True), 16_300_000)
    assert found.value == 16_256
    assert found.total == 16_256_000
    assert found.exact is not None
    assert found.exact >= 16_256
    assert _padded(found.exact) <= 16_300_000 < _padded(found.exact + 1)


def test_it_is_no_longer_than_what_the_model_was_made_for() -> None:
    found = largest_of(Size("seq_len", "--seq", 512, _padded, length=True, longest=1400), 2_000_000)
    assert found.value is not None
    assert found.value <= 1400
    assert _padded(found.value) <= 2_000_000


def test_a_batch_is_not_rounded() -> None:
    assert largest_of(Size("batch_size", "--batch", 1, lambda n: 7 * n), 1000).value == 142
