"""The LaTeX of formulas parses, and what it says is the number: for every preset, whatever is printed of its parts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.latex_of_presets import ASKED, Printed, explanations, summary
from tests.latex_reader import number, worth
from tfcalc import formula, load
from tfcalc.catalog import index
from tfcalc.core.polynomial import symbols
from tfcalc.defaults import own_format
from tfcalc.report.sheet import InNumbers, for_people
from tfcalc.report.style import Style

PRESETS = list(index())
SLICES = [PRESETS[start : start + 80] for start in range(0, len(PRESETS), 80)]
SOME = ["gpt2", "llama-3-8b", "deepseek-v3", "mamba2-780m", "siglip-so400m-patch14-384", *PRESETS[::60]]


def otherwise(printed: Iterable[Printed]) -> list[str]:
    """Those whose LaTeX is worth something else."""
    return [str(each) for each in printed if each.is_worth != each.number]


@pytest.mark.long
@pytest.mark.one_in(4)
@pytest.mark.parametrize("names", SLICES, ids=[names[0] for names in SLICES])
def test_formulas_of_every_preset_are_their_numbers(names: list[str]) -> None:
    """The summary of each: parameters, without biases and norms, and FLOPs of every part."""
    assert sum(map(len, SLICES)) == len(PRESETS) > 300
    for name in names:
        assert otherwise(summary(load(name))) == [], name


@pytest.mark.long
@pytest.mark.one_in(2)
@pytest.mark.parametrize("asked", ASKED)
def test_every_line_of_some_presets_is_its_number(asked: str) -> None:
    """Each part opened. (``-m long`` opens those of all presets.)"""
    _opened(SOME, asked)


@pytest.mark.long(2)
@pytest.mark.parametrize("asked", ASKED)
def test_every_line_of_every_preset_is_its_number(asked: str) -> None:
    opened = _opened(PRESETS, asked)
    assert opened > (50_000 if asked == "bytes" else 30_000)


def _opened(names: Iterable[str], asked: str) -> int:
    """How many formulas were read. A checkpoint that is stored in blocks has no closed form of its bytes."""
    read = 0
    for name in names:
        model = load(name)
        own = own_format(model)
        if asked == "bytes" and own and not own.format.plain:
            continue
        printed = list(explanations(model, asked))
        assert otherwise(printed) == [], name
        read += len(printed)
    return read


def test_the_parser_reads_what_a_person_reads() -> None:
    """4lbh(2h + l) at l = 3, b = 5, h = 7, by hand."""
    text = formula("mha", "flops").latex()
    assert worth(text, {"l": 3, "b": 5, "h": 7}) == 4 * 3 * 5 * 7 * (2 * 7 + 3)


def test_letters_that_run_together_are_refused() -> None:
    with pytest.raises(AssertionError, match="run together"):
        worth("4 lb", {"l": 3, "b": 5})


def test_a_letter_without_a_value_is_refused() -> None:
    with pytest.raises(KeyError):
        worth("4 l b", {"l": 3})


@pytest.mark.parametrize(
    ("text", "worth_"),
    [
        (r"3 \times (2 \times 768 \times 768)", 3 * 2 * 768**2),
        (r"4 \cdot 2^{2} \cdot (10 + 2)/3 - 1", 63),
        (r"5 \cdot \left\lfloor (17 + 3)/6\right\rfloor  + \min(\left\lfloor 9/2\right\rfloor , 3)", 18),
    ],
)
def test_numbers_by_hand(text: str, worth_: int) -> None:
    assert number(text) == worth_


def test_sizes_in_a_formula_are_latex() -> None:
    """In text they stand with a dot and raised digits."""
    f, h, w = symbols("f h w")
    cell = InNumbers(h * h * h * h * (f // w) + 12 * h, {"f": "17", "h": "64", "w": "4"})
    assert for_people(cell, Style(script="latex")) == r"64^{4} \cdot \left\lfloor 17/4\right\rfloor  + 12 \cdot 64"
    assert for_people(cell, Style()) == "64⁴⌊17/4⌋ + 12·64"
