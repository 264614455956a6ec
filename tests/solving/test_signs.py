"""Signs of polynomials, with floors and minima, against every size."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from tfcalc.core.polynomial import Polynomial, symbols
from tfcalc.solving.signs import NoForm, SignInterval, intervals, signs, value

LETTER, OTHER = symbols("l k")


@pytest.mark.parametrize("seed", range(60))
def test_signs_of_a_polynomial_are_those_of_each_size(seed: int) -> None:
    draw = random.Random(seed)
    factors = [draw.randint(-9, 9) * draw.choice((1, 1, 30)) ** draw.randint(0, 2) for _ in range(draw.randint(1, 6))]
    first = draw.randint(-20, 5)
    last = first + draw.randint(0, 60)
    found = intervals(factors, first, last)
    assert every(found) == [sign(value(factors, k)) for k in range(first, last + 1)]
    assert all(one.sign != other.sign for one, other in pairwise(found))


def test_roots_far_away_are_found() -> None:
    """(k - 10¹¹)(k - 10¹¹ - 2): below 0 at one size alone."""
    far = 10**11
    found = intervals([far * (far + 2), -2 * far - 2, 1], 1, 10**12)
    assert [(interval.first, interval.last, interval.sign) for interval in found] == [
        (1, far - 1, 1),
        (far, far, 0),
        (far + 1, far + 1, -1),
        (far + 2, far + 2, 0),
        (far + 3, 10**12, 1),
    ]


def test_signs_of_closed_forms_are_those_of_each_size() -> None:
    decided = 0
    for seed in range(120):
        draw = random.Random(seed)
        form = Polynomial({(): draw.randint(-500, 500)})
        for _ in range(draw.randint(1, 4)):
            term = Polynomial({(): draw.choice((-7, -3, -1, 1, 2, 5))})
            for _ in range(draw.randint(0, 2)):
                term = term * piece(draw)
            form = form + term
        values, step, last = {"k": draw.choice((1, 4, 9))}, draw.choice((1, 1, 3)), 120

        def at(k: int, form: Polynomial = form, values: dict[str, int] = values, step: int = step) -> Fraction:
            return Fraction(form.at({**values, "l": k * step}))

        try:
            found = signs(form, "l", values, step, 1, last, at)
        except NoForm:
            continue
        decided += 1
        assert every(found) == [sign(at(k)) for k in range(1, last + 1)], form
    assert decided > 100


def piece(draw: random.Random) -> Polynomial:
    made: Polynomial = draw.choice(
        (
            LETTER,
            (draw.randint(1, 3) * LETTER + draw.randint(-3, 5)) // draw.choice((2, 3, 7)),
            LETTER * LETTER // draw.choice((2, 3, 600)),
            LETTER.minimum(OTHER),
            (LETTER + 3) // OTHER,
            (LETTER // 3 + 1) // 2,
        )
    )
    return made


def every(found: list[SignInterval]) -> list[int]:
    return [interval.sign for interval in found for _ in range(interval.first, interval.last + 1)]


def sign(number: int | Fraction) -> int:
    return (number > 0) - (number < 0)
