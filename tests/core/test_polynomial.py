"""The light symbols against sympy, which they stand in for."""

from __future__ import annotations

from random import Random

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from tests.formula_reader import evaluate
from tfcalc.core.notation import ASCII, LATEX, NOTATIONS, write
from tfcalc.core.polynomial import Polynomial, symbols
from tfcalc.symbolic import to_sympy

LETTERS = "nlbhafVT"
AT = dict(zip(LETTERS, (2, 3, 5, 7, 11, 13, 17, 19), strict=True))

monomials = st.lists(st.sampled_from(LETTERS), max_size=4).map(
    lambda letters: tuple(sorted((letter, letters.count(letter)) for letter in set(letters)))
)


def polynomial(terms: dict[tuple[tuple[str, int], ...], int]) -> Polynomial:
    return sum((Polynomial({powers: factor}) for powers, factor in terms.items()), Polynomial({}))


polynomials = st.dictionaries(monomials, st.integers(-50, 50), max_size=6).map(polynomial)


Numerator = tuple[list[Polynomial], Polynomial | int]
"""The terms of what is divided, and the divisor."""


@given(polynomials, polynomials)
def test_arithmetic_is_sympys(left: Polynomial, right: Polynomial) -> None:
    a, b = to_sympy(left), to_sympy(right)
    assert sympy.expand(to_sympy(left + right) - (a + b)) == 0
    assert sympy.expand(to_sympy(left - right) - (a - b)) == 0
    assert sympy.expand(to_sympy(left * right) - a * b) == 0
    assert sympy.expand(to_sympy(7 - left) - (7 - a)) == 0


@given(polynomials, st.integers(1, 9))
def test_floor_division_is_that_of_the_value(number: Polynomial, divisor: int) -> None:
    assert (number // divisor).at(AT) == number.at(AT) // divisor


@given(
    *(st.tuples(st.lists(polynomials, min_size=1, max_size=4), st.sampled_from((*symbols("h l"), 128))) for _ in "12"),
    st.randoms(use_true_random=False),
)
def test_floors_are_equal_in_whatever_order_their_terms_are_added(
    one: Numerator, other: Numerator, draw: Random
) -> None:
    """Of one and the same number a product of floors is one and the same monomial."""

    def floor(parts: list[Polynomial], divisor: Polynomial | int) -> Polynomial:
        return sum(draw.sample(parts, len(parts)), Polynomial({})) // divisor

    assert floor(*one) * floor(*other) == floor(*other) * floor(*one)


@given(polynomials, polynomials)
def test_values_add_and_multiply(left: Polynomial, right: Polynomial) -> None:
    assert (left + right).at(AT) == left.at(AT) + right.at(AT)
    assert (left * right).at(AT) == left.at(AT) * right.at(AT)


@given(polynomials)
def test_a_part_can_be_substituted(number: Polynomial) -> None:
    some = {letter: AT[letter] for letter in "hlV"}
    rest = number.at(some)
    assert (rest.at(AT) if isinstance(rest, Polynomial) else rest) == number.at(AT)


@given(polynomials, st.sampled_from([None, True, False]))
def test_what_is_printed_has_the_value_of_what_is_meant(number: Polynomial, factored: bool | None) -> None:
    assert evaluate(write(number, factored=factored), AT) == number.at(AT)
    assert evaluate(write(number, script=ASCII, factored=factored), AT) == number.at(AT)
    names = NOTATIONS["names"]
    spelt = write(number, script=ASCII, letters={**names, "f": "d_ff", "T": "max_len"}, factored=factored)
    assert evaluate(spelt, {names.get(letter, letter): value for letter, value in AT.items()}) == number.at(AT)


def test_a_ratio_of_sizes() -> None:
    h, a, g = symbols("h a g")
    assert (h / a) * a == h
    assert (g * h / a).at({"g": 2, "h": 512, "a": 8}) == 128
    assert write(h * (g * h / a)) == "h²g/a"
    assert 4 * h / (2 * a) * a == 2 * h
    with pytest.raises(ValueError, match="divided evenly"):
        h / (2 * a)


@pytest.mark.parametrize(
    ("text", "latex"),
    [("4h² + 4h", "4 h^{2} + 4 h"), ("n(12h² + 13h)", "n (12 h^{2} + 13 h)"), ("-h", "- h"), ("0", "0"), ("3", "3")],
)
def test_latex(text: str, latex: str) -> None:
    h, n = symbols("h n")
    zero = Polynomial({})
    meant = {
        "4h² + 4h": 4 * h * h + 4 * h,
        "n(12h² + 13h)": n * (12 * h * h + 13 * h),
        "-h": -h,
        "0": zero,
        "3": zero + 3,
    }[text]
    assert write(meant) == text
    assert write(meant, script=LATEX).replace("- h", "-h") == latex.replace("- h", "-h")


def test_floors_are_printed_and_read_back() -> None:
    (h,) = symbols("h")
    half = (h * h + 1) // 2 + 3 * h
    assert write(half) == "3h + ⌊(h² + 1)/2⌋"
    assert evaluate(write(half), {"h": 5}) == evaluate(write(half, script=ASCII), {"h": 5}) == 28
