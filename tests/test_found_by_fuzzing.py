"""What `make fuzz` found, each as a test of its own; the fuzzer tries the same and more."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

import tfcalc
from tfcalc.cli.commands import every
from tfcalc.cli.commands.formula import numbers_of
from tfcalc.cli.settings import settle
from tfcalc.errors import BadFile, UsageError
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


@pytest.mark.parametrize("text", ['preset = "zzz"', 'train = true\nphase = "forward"'])
def test_what_is_wrong_in_a_settings_file_is_the_files_mistake(text: str, tmp_path: Path) -> None:
    """A preset that is not known, and two keys that contradict each other, were exit 2 as if they had been typed."""
    (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
    with chdir(tmp_path), pytest.raises(BadFile, match=r"tfcalc\.toml: "):
        settle([*every()], {}, {})


@pytest.mark.parametrize("text", ["h=512,h=8", "h=512,n=6,h=512", "h = 1,h=2"])
def test_a_symbol_is_given_one_number(text: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        numbers_of(text)


def test_a_size_by_its_letter_and_by_its_name_is_given_once() -> None:
    with pytest.raises(UsageError, match="the same size"):
        tfcalc.formula("mha", substitute={"h": 512, "d_model": 8})


@pytest.mark.parametrize("size", [None, 1.5, "512", b"8"])
def test_a_formula_is_evaluated_at_whole_numbers(size: object) -> None:
    """They were an AttributeError of a class that nobody outside knows."""
    with pytest.raises(UsageError, match="is no size"):
        tfcalc.formula("embedding").at(h=size)  # type: ignore[arg-type]
