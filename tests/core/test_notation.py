"""Formulas as they are printed: read back by an independent reader they have the value that is meant."""

from __future__ import annotations

import re
from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formula_reader import evaluate, from_latex, letters_of
from tfcalc.core.notation import ASCII, LATEX, NOTATIONS, UNICODE, Script, spelled, terms, wrap, write, write_product
from tfcalc.core.polynomial import Polynomial, symbols

LETTERS = ("n", "n_e", "l", "b", "h", "a", "d", "d_v", "f", "f_x", "V", "T", "h_vis", "n_vis", "E")
SCRIPTS = (UNICODE, ASCII, LATEX)
n, n_e, n_d, l, b, h, f, V = symbols("n n_e n_d l b h f V")


def _polynomial(terms: dict[Any, int]) -> Polynomial:
    return Polynomial(terms)


monomials = st.lists(st.sampled_from(LETTERS), max_size=4).map(
    lambda letters: tuple(sorted((letter, letters.count(letter)) for letter in set(letters)))
)
polynomials = st.dictionaries(monomials, st.integers(-50, 50), max_size=5).map(_polynomial)
ratios = st.dictionaries(
    st.dictionaries(st.sampled_from(LETTERS), st.sampled_from((-2, -1, 1, 2)), max_size=6).map(
        lambda powers: tuple(sorted(powers.items()))
    ),
    st.integers(-50, 50).filter(bool),
    max_size=3,
).map(_polynomial)
factored = st.sampled_from([None, True, False])
scripts = st.sampled_from(SCRIPTS)
notations = st.sampled_from(sorted(NOTATIONS))
sizes = st.lists(st.integers(1, 40), min_size=len(LETTERS), max_size=len(LETTERS)).map(
    lambda values: dict(zip(LETTERS, values, strict=True))
)


@st.composite
def sums_with_counts(draw: st.DrawFn) -> Polynomial:
    """Sums as models have them: so many of this, and one less of the same."""
    first, second, rest = draw(polynomials), draw(polynomials), draw(polynomials)
    return (n - draw(st.integers(-2, 2))) * first + (draw(st.integers(-3, 3)) * n_e + 2) * (first + second) + rest


def read(text: str, script: Script, notation: str, at: dict[str, int]) -> int | Fraction:
    """The value of a printed formula, in whatever script and letters."""
    text = from_latex(text) if script is LATEX else text.replace(" x ", " × ")
    return evaluate(text, {spelled(letter, notation): size for letter, size in at.items()})


@given(st.one_of(polynomials, sums_with_counts()), factored, scripts, notations, sizes)
def test_a_printed_formula_has_the_value_of_what_is_meant(
    number: Polynomial, factored: bool | None, script: Script, notation: str, at: dict[str, int]
) -> None:
    letters = {letter: spelled(letter, notation) for letter in LETTERS}
    text = write(number, script=script, letters=letters, factored=factored)
    assert read(text, script, notation, at) == number.at(at)


@given(ratios, factored, scripts, notations, sizes)
def test_a_printed_fraction_has_the_value_of_what_is_meant(
    number: Polynomial, factored: bool | None, script: Script, notation: str, at: dict[str, int]
) -> None:
    letters = {letter: spelled(letter, notation) for letter in LETTERS}
    text = write(number, script=script, letters=letters, factored=factored)
    exactly = sum(
        factor * prod(Fraction(at[str(letter)]) ** power for letter, power in powers)
        for powers, factor in number.terms.items()
    )
    assert read(text, script, notation, at) == exactly


@given(st.lists(polynomials, min_size=1, max_size=4), scripts, notations, sizes)
def test_printed_factors_multiply_to_the_value_of_what_is_meant(
    factors: list[Polynomial], script: Script, notation: str, at: dict[str, int]
) -> None:
    letters = {letter: spelled(letter, notation) for letter in LETTERS}
    product = 1
    for factor in factors:
        product = product * factor.at(at)
    assert read(write_product(factors, script=script, letters=letters), script, notation, at) == product


@given(st.one_of(polynomials, sums_with_counts()), factored)
def test_no_bracket_begins_with_a_minus_that_could_stand_elsewhere(number: Polynomial, factored: bool | None) -> None:
    assert "(-" not in write(number, factored=factored)


@given(polynomials, factored, st.integers(1, 60))
def test_lines_of_a_formula_are_the_formula(number: Polynomial, factored: bool | None, width: int) -> None:
    text = write(number, factored=factored)
    lines = wrap(text, width)
    assert " ".join(lines) == text
    assert all(line[:2] in ("+ ", "- ") for line in lines[1:])
    for line in lines:  # too wide only where there is nothing to break at
        assert len(line) <= width or not re.search(r" [+-] ", line)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12 * n * l * b * h * (6 * h + l) - 12 * l * b * h * (6 * h + l), "12(n - 1)lbh(6h + l)"),
        (12 * (n - 1) * l * b * h * (6 * h + l) + 2 * l * b * h * V, "12(n - 1)lbh(6h + l) + 2lbhV"),
        (4 * (n_e + n_d) * l * b * h * (2 * h + l), "4(n_e + n_d)lbh(2h + l)"),
        ((n - 1) * (4 * h * h + 4 * h), "4(n - 1)(h² + h)"),
        (2 * n * h + h, "(2n + 1)h"),
        (n * (28 * h * h + 32 * h) + 4 * h + 2 * V * h, "n(28h² + 32h) + (4 + 2V)h"),
        (n * (4 * h * h + 9 * h) + h * h + h, "n(4h² + 9h) + h² + h"),
        (-12 * l * b * h * (6 * h + l), "-12lbh(6h + l)"),
        (l * b * (f - h), "lb(f - h)"),
        (V - h, "V - h"),
        (-h - V, "-h - V"),
    ],
)
def test_what_terms_have_in_common_is_written_once(number: Polynomial, text: str) -> None:
    assert write(number) == text


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (UNICODE, "(n - 1) × lbh × (h + f)"),
        (ASCII, "(n - 1) x lbh x (h + f)"),
        (LATEX, r"(n - 1) \times l b h \times (h + f)"),
    ],
)
def test_a_sum_stands_in_brackets_where_it_is_a_factor(script: Script, text: str) -> None:
    assert write_product([n - 1, l * b * h, h + f], script=script) == text
    assert write_product([n - 1], script=script) == "n - 1"


@pytest.mark.parametrize(
    ("letters", "text"),
    [
        ("h a d_v", "h·a·d_v"),
        ("h a d", "h·a·d"),
        ("a d", "ad"),
        ("l b h V", "lbhV"),
        ("n_e l b h", "n_e·lbh"),
        ("h_vis p_vis", "h_vis·p_vis"),
        ("h h_vis f f_x", "h·h_vis·f·f_x"),
    ],
)
def test_a_letter_with_an_index_is_set_apart_from_its_neighbours(letters: str, text: str) -> None:
    product = Polynomial({(): 1})
    for each in symbols(letters):
        product = product * each
    assert write(product) == text


def test_a_nested_models_letters_are_ordered_as_its_own() -> None:
    n_vis, h_vis, f_vis = symbols("n_vis h_vis f_vis")
    assert write(n_vis * (4 * h_vis * h_vis + 2 * f_vis * h_vis)) == "n_vis·(4·h_vis² + 2·h_vis·f_vis)"


def test_a_division_is_in_its_lowest_terms() -> None:
    assert write((4 * h) // 16 + (2 * h) // 8) == "2⌊h/4⌋"
    assert ((4 * h) // 16).at({"h": 7}) == 28 // 16 == 1


def test_a_formula_is_broken_between_terms_first() -> None:
    text = "n(28h² + 32h) - (4 + 2V)h"
    assert terms(text) == ["n(28h² + 32h)", "- (4 + 2V)h"]
    assert wrap(text, 80) == [text]
    assert wrap(text, 13) == ["n(28h² + 32h)", "- (4 + 2V)h"]
    assert wrap(text, 9) == ["n(28h²", "+ 32h)", "- (4", "+ 2V)h"]
    assert wrap("12·d_model·vocab_size", 5) == ["12·d_model·vocab_size"]


def test_letters_are_found_in_what_is_printed() -> None:
    assert letters_of("n_e·(4h² + 2h·f_e) + min(l, w)·⌊V/2⌋") == {"n_e", "h", "f_e", "l", "w", "V"}
