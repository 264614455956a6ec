"""The largest length where one that is no multiple of 8 takes more: kernels fill it up, and copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfcalc.search.largest import GrowingSize, largest_of

Need = Callable[[int], int]
Roughly = Callable[[int], int | None]


def _padded(length: int) -> int:
    """1,000 bytes a token, and half as many again where the length is no multiple of 8."""
    return 1000 * length * (2 if length % 8 == 0 else 3) // 2


def test_a_longer_multiple_is_found_behind_a_length_that_does_not_fit() -> None:
    """Within 16,300,000 bytes: 16,300 tokens as multiples of 8, and 127 · 128 = 16,256 of these.

    64 · 252 = 16,128 is tried first and fits, 16,129 is tried then and does not.
    """
    found = largest_of(GrowingSize("seq_len", "--seq", 252, _padded, length=True), 16_300_000)
    assert found.value == 16_256
    assert found.total == 16_256_000
    assert found.exact == 16_296, "8 · 2,037; 8 · 2,038 are more than 16,300"


NEEDS: dict[str, Need] = {
    "copies of what is no multiple of 8": _padded,
    "chunks of 64, and 8 bytes a token": lambda n: 1000 * 64 * -(-n // 64) + 8 * n,
    "chunks, and copies of what is none": lambda n: 1000 * 64 * -(-n // 64) + 100 * n * (n % 64 != 0),
    "squares of what is filled up": lambda n: (-(-n // 8) * 8) ** 2 + n * (n % 8 != 0),
    "a window of 400": lambda n: 50 * n * min(n, 400) + 7 * n,
    "an optimizer's step": lambda n: max(300_000, 700 * n),
}
ROUGHLY: dict[str, Callable[[Need], Roughly]] = {
    "nothing is known": lambda _: lambda _: None,
    "it is known": lambda need: need,
    "it is thought to be less": lambda need: lambda n: need(n) * 3 // 4,
    "it is thought to be more": lambda need: lambda n: need(n) * 2 + 10_000,
    "it is thought to be the same for all": lambda _: lambda _: 5,
    "it is thought to fall": lambda _: lambda n: 10**7 // n,
}


@pytest.mark.parametrize("roughly", ROUGHLY.values(), ids=ROUGHLY)
@pytest.mark.parametrize("need", NEEDS.values(), ids=NEEDS)
def test_no_longer_one_is_within_the_budget(need: Need, roughly: Callable[[Need], Roughly]) -> None:
    """Each length up to 3,000 is looked at; of multiples, each of 128."""
    needs = [need(n) for n in range(3001)]
    for budget in (310_000, 650_000, 1_030_000, 1_500_000, 1_650_000):
        within = [n for n in range(1, 3001) if needs[n] <= budget]
        assert within[-1] < 3000, "or more would have to be looked at"
        for asked in (1, 3, 252, 2900):
            for longest in (None, 100, 1000, 2950):
                size = GrowingSize("seq_len", "--seq", asked, need, length=True, longest=longest, roughly=roughly(need))
                found, limit = largest_of(size, budget), size.limit
                assert found.exact == within[-1], (budget, asked, longest)
                multiples = [n for n in within if n % 128 == 0 and (limit is None or n <= limit)]
                if limit in within and asked in within:
                    assert found.value == limit
                elif multiples:
                    assert found.value == multiples[-1]
                else:
                    assert found.value in within


def test_a_good_guess_takes_two_trials() -> None:
    """The multiple that is found, and the next."""
    asked = list[int]()

    def need(n: int) -> int:
        asked.append(n)
        return 1000 * n + n * n

    size = GrowingSize("seq_len", "--seq", 3, need, length=True, roughly=lambda n: 1000 * n + n * n)
    assert largest_of(size, 30_000_000).value == 4992, "39 · 128: 4992² + 4,992,000 is 29.9 million, 5120² 31.3 million"
    assert set(asked) == {4992, 5120}


def test_it_is_no_longer_than_what_the_model_was_made_for() -> None:
    found = largest_of(GrowingSize("seq_len", "--seq", 512, _padded, length=True, longest=1400), 2_000_000)
    assert found.value is not None
    assert found.value <= 1400
    assert _padded(found.value) <= 2_000_000


def test_a_batch_is_not_rounded() -> None:
    assert largest_of(GrowingSize("batch_size", "--batch", 1, lambda n: 7 * n), 1000).value == 142
