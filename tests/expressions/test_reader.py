"""Formulas and conditions as people write them: what each says, by arithmetic; and how what is none is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from time import perf_counter

import pytest

from tests.expressions.spellings import REFUSED, SAME
from tfcalc.core.polynomial import Floor, Minimum, Polynomial
from tfcalc.errors import UsageError
from tfcalc.expressions import Ratio, evaluate, expanded, names_of, read_conditions, read_formula

NAMES = ("l", "b", "h", "n", "a", "d", "f", "V", "T", "d_ff", "d_model", "d_k", "seq", "n_layers")
AT = dict(zip(NAMES, (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43), strict=True))
MEANING = {name: name for name in NAMES}
SOON = 10.0
"""Seconds in which any text is read or refused, on a busy machine; without limits some of these would take years."""


def exact(ratio: Ratio, at: Mapping[str, int]) -> Fraction:
    """Its value, with fractions where Polynomial.at divides whole."""
    return exact_of(ratio.top, at) / ratio.bottom


def exact_of(number: Polynomial | int, at: Mapping[str, int]) -> Fraction:
    if isinstance(number, int):
        return Fraction(number)
    found = Fraction(0)
    for powers, factor in number.terms.items():
        term = Fraction(factor)
        for atom, power in powers:
            if isinstance(atom, Floor):
                value = Fraction(exact_of(atom.dividend, at) // exact_of(atom.divisor, at))
            elif isinstance(atom, Minimum):
                value = min(exact_of(atom.one, at), exact_of(atom.other, at))
            else:
                value = Fraction(at[atom])
            term *= value**power
        found += term
    return found


@pytest.mark.parametrize(("text", "value"), SAME)
def test_a_formula_has_the_value_that_python_gives_it(text: str, value: str) -> None:
    """``value`` is the same as Python writes it, with Fraction for what does not come out even."""
    expected = eval(value, {"F": Fraction}, dict(AT))  # of this table alone
    read = read_formula(text, NAMES)
    assert evaluate(read, AT) == expected
    assert exact(expanded(read, MEANING), AT) == expected


@pytest.mark.parametrize(("text", "fact", "remedy"), REFUSED)
def test_what_is_no_formula_is_refused_with_its_place(text: str, fact: str, remedy: str) -> None:
    began = perf_counter()
    with pytest.raises(UsageError) as refused:
        expanded(read_formula(text, NAMES), MEANING)
    assert fact in refused.value.message
    assert remedy in refused.value.hint
    assert "\n" not in f"{refused.value}"
    assert perf_counter() - began < SOON


def test_the_place_is_counted_from_one() -> None:
    text = "4h² + *h"
    with pytest.raises(UsageError, match="at character 5: '\\+' needs a factor after it"):
        read_formula(text, NAMES)
    assert text[5 - 1] == "+"


def test_names_that_are_not_given_are_words() -> None:
    assert names_of(read_formula("3d_ff*width + lbh")) == {"d_ff", "width", "lbh"}


CONDITIONS = [
    ("attention = ffn", ["attention = ffn"]),
    ("params == 125M", ["params = 125000000"]),
    ("memory ≤ 80GiB", ["memory <= 85899345920"]),
    ("memory <= 80 * 1e9", ["memory <= 80000000000"]),
    ("model.layers[0-2].mlp <= 2 * attention", ["model.layers[0-2].mlp <= 2*attention"]),
    ("1.4B <= params < 2e9", ["1400000000 <= params", "params < 2000000000"]),
    ("l = 2h/3", ["l = 2/3*h"]),
    ("seq >= 128k", ["seq >= 128000"]),
    ("params > 124,439,808", ["params > 124439808"]),
    ("flops / tokens => 1e12", ["flops/tokens >= 1000000000000"]),
]


@pytest.mark.parametrize(("text", "meant"), CONDITIONS)
def test_conditions(text: str, meant: list[str]) -> None:
    found = read_conditions(text)
    assert len(found) == len(meant)
    for condition, each in zip(found, meant, strict=True):
        left, operator, right = re.fullmatch("(.*?) (<=|>=|=|<|>) (.*)", each).groups()  # type: ignore[union-attr]
        assert condition.operator == operator
        at = {name: 3 + 7 * len(name) for name in condition.names}
        for side, text_of_it in ((condition.left, left), (condition.right, right)):
            assert evaluate(side, at) == evaluate(read_formula(text_of_it, quantities=True), at)


def test_bytes_know_that_they_are() -> None:
    (condition,) = read_conditions("memory <= 80GB")
    assert condition.right.unit == "bytes"  # type: ignore[union-attr]
    (condition,) = read_conditions("params <= 80B")
    assert condition.right.unit == ""  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("params", "compares nothing"),
        ("a < b < c < d", "at character 11: a condition has at most two"),
        ("params != 3", "at character 8: '!' is no part"),
        ("params = ", "at character 8: '=' needs a factor after it"),
        ("= 3", "at character 1: '=' needs a factor before it"),
        ("params = 3 = ", "at character 12: '=' needs a factor after it"),
        ("share = 30 %", "at character 12: '%' is no part"),
        ("params = 1e40", "'1e40' is too large"),
        ("params = 99999999999999999999999999T", "too large"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, fact: str) -> None:
    with pytest.raises(UsageError, match=re.escape(fact)):
        read_conditions(text)


def test_names_of_a_condition_that_are_known() -> None:
    with pytest.raises(UsageError) as refused:
        read_conditions("atention = ffn", ("attention", "ffn", "seq"))
    assert "at character 1" in refused.value.message
    assert refused.value.hint == "did you mean attention?"


def test_values_that_are_wanting_or_too_large() -> None:
    with pytest.raises(UsageError, match="'h' has no value"):
        evaluate(read_formula("h"), {})
    with pytest.raises(UsageError, match="divides by 0"):
        evaluate(read_formula("1/(h - 5)"), {"h": 5})
    with pytest.raises(UsageError, match="over a thousand digits"):
        evaluate(read_formula("((h^16)^16)^16"), {"h": 10**9})


def test_a_ratio_is_in_lowest_terms() -> None:
    half = expanded(read_formula("(2h + 4)/8", NAMES), MEANING)
    assert half == expanded(read_formula("h/4 + 0.5", NAMES), MEANING)
    assert half.bottom == 4
    assert (half - half) == Ratio(half.top * 0, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("⌊h/a/2⌋", "⌊h/(2a)⌋"), ("min(l, h)", "min(h, l)"), ("⌊4h/16⌋", "floor(h/4)"), ("⌊(h + 4a)/a⌋", "4 + ⌊h/a⌋")],
)
def test_floors_and_minima_have_one_form(one: str, other: str) -> None:
    assert expanded(read_formula(one, NAMES), MEANING) == expanded(read_formula(other, NAMES), MEANING)
