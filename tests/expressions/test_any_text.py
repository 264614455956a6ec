"""Whatever the text, it is read or refused in one line, soon; and what tfcalc prints is read as what it is."""

from __future__ import annotations

from time import perf_counter

from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_notation import LETTERS, factored, notations, polynomials, scripts, sums_with_counts
from tests.examples import examples
from tests.expressions.test_reader import SOON, exact
from tfcalc.core.notation import LATEX, UNICODE, Script, spelled, write
from tfcalc.core.polynomial import Polynomial
from tfcalc.errors import UsageError
from tfcalc.expressions import Condition, Expression, Ratio, evaluate, expanded, read_conditions, read_formula

NAMES = ("l", "b", "h", "n", "a", "d", "f", "V", "d_ff", "d_model", "x_1")
LONGEST_LINE = 600
"""Characters of an error, by CONTRIBUTING.md."""

PIECES = (
    *NAMES,
    *"0123456789+-*/^(),.=<>[]{}_ \t\n⌊⌋·×÷−²³⁻¹≤≥",
    "**",
    "floor(",
    "min(",
    "GiB",
    "1e9",
    "B",
    "k",
    "é",
    "\0",
)

texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.tuples(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.integers(1, 900)).map(
        lambda t: t[0] * t[1]
    ),
)
deep = st.recursive(
    st.sampled_from([*NAMES, "1", "7", "0.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " - ", "*", "/", " "]), inner).map("".join),
        st.tuples(inner, st.sampled_from(["^2", "^16", "^-3", "²", "^(2^3)"])).map(lambda t: f"({t[0]}){t[1]}"),
        inner.map("⌊{}/3⌋".format),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]})"),
        inner.map("({})".format),
    ),
    max_leaves=40,
)


def sides(read: Expression | tuple[Condition, ...]) -> list[Expression]:
    return [side for each in read for side in (each.left, each.right)] if isinstance(read, tuple) else [read]


def outcome(text: str) -> None:
    """Read a text in every way; nothing but UsageError may be raised, and that in one line."""
    lines: list[str] = []
    for names in (NAMES, None):
        for reading in (read_formula, read_conditions):
            try:
                for side in sides(reading(text, names)):
                    lines += refusals(side)
            except UsageError as refused:
                lines.append(str(refused))
    assert not [line for line in lines if "\n" in line or len(line) > LONGEST_LINE]


def refusals(side: Expression) -> list[str]:
    found = []
    for use in (expand, large):
        try:
            use(side)
        except UsageError as refused:
            found.append(str(refused))
    return found


def expand(side: Expression) -> object:
    return expanded(side, dict(zip(NAMES, NAMES, strict=True)))


def large(side: Expression) -> object:
    return evaluate(side, dict.fromkeys(NAMES, 10**9))


@examples(400)
@given(texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    began = perf_counter()
    outcome(text)
    assert perf_counter() - began < SOON


@examples(200)
@given(deep)
def test_so_is_what_nearly_is_a_formula(text: str) -> None:
    began = perf_counter()
    outcome(text)
    assert perf_counter() - began < SOON


@examples(200)
@given(deep, st.lists(st.integers(1, 50), min_size=len(NAMES), max_size=len(NAMES)))
def test_multiplied_out_it_has_the_same_value(text: str, sizes: list[int]) -> None:
    at = dict(zip(NAMES, sizes, strict=True))
    try:
        read = read_formula(text, NAMES)
        multiplied, value = expanded(read, {name: name for name in NAMES}), evaluate(read, at)
    except UsageError:
        return
    assert exact(multiplied, at) == value


@given(st.one_of(polynomials, sums_with_counts()), factored, scripts.filter(lambda it: it is not LATEX), notations)
def test_what_is_printed_is_read_back(number: Polynomial, factored: bool | None, script: Script, notation: str) -> None:
    letters = {letter: spelled(letter, notation) for letter in LETTERS}
    back = {spelling: letter for letter, spelling in letters.items()}
    text = write(number, script=script, letters=letters, factored=factored)
    assert expanded(read_formula(text, back), back) == Ratio(number)


@given(polynomials, st.sampled_from("*⋅×"), st.sampled_from("-−–"), st.sampled_from(["^2", "**2", "^(1+1)"]))
def test_so_it_is_with_other_signs_and_spaces(number: Polynomial, times: str, minus: str, square: str) -> None:
    names = {letter: letter for letter in LETTERS}
    text = write(number, script=UNICODE)
    for old, new in (("²", square), ("·", f" {times} "), (" - ", f"{minus} "), ("(", "( ")):
        text = text.replace(old, new)
    assert expanded(read_formula(text, names), names) == Ratio(number)
