"""The cards that an overview names are those on which the command that its line names says that it fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Quick
from tests.laws.presets import ALL, ENDS
from tfcalc.answers.overview import METHODS, Overview, overview
from tfcalc.answers.verdict import memory_within
from tfcalc.catalog import index, load
from tfcalc.defaults import compute_dtype, served_dtype
from tfcalc.plans import Serving
from tfcalc.search.gpus import FITTING, CardRule, common, of_card, stated
from tfcalc.training.allocator import Reserved
from tfcalc.training.peaks import Peaks

SERVING = "serving"

EACH = 4
"""Of as many ends of families one is asked about every card in CI."""

Question = dict[str, Any]
"""What is asked beside the model and the card, by the names of arguments."""


def questions(found: Overview) -> Iterator[tuple[str, Question]]:
    """What the command of each line asks that names cards; what one card has run is there for the next."""
    if SERVING in found.gpus:
        yield SERVING, {"serving": Serving(context=found.served_context)}
    step, peaks = found.workload.replaced(phase="train"), Peaks(found.of)
    for method, (_, plan, _) in METHODS.items():
        if f"finetune_{method}" in found.gpus:
            yield f"finetune_{method}", {"workload": step, "training": plan, "peaks": peaks}


def named_and_others(found: Overview, line: str) -> tuple[list[str], list[str]]:
    """The cards that a line names, and those that compute in the model's format and that it does not name."""
    named = [gpu.name for gpu in found.gpus[line]()]
    dtype = served_dtype(found.of) if line == SERVING else compute_dtype(found.of)
    computing = [gpu.name for gpu in common() if dtype in gpu.peaks]
    return named, [name for name in computing if name not in named]


def fits(found: Overview, card: str, question: Question) -> bool:
    """The verdict of ``tfcalc memory --gpu``."""
    return memory_within(found.of, of_card(card), **question).fits


@given(
    total=st.integers(1, 2**38),
    card=st.sampled_from([gpu.name for gpu in common()]),
    ran=st.sampled_from([None, "not simulated"]) | st.integers(100, 150),
    given_back=st.booleans(),
)
def test_what_fits_is_what_its_state_says(total: int, card: str, ran: int | str | None, given_back: bool) -> None:
    """Whatever the allocator reserves: runs out (None), is not simulated, or takes so many per cent of the need."""
    reserved = Reserved(total * ran // 100, total, given_back) if isinstance(ran, int) else None
    simulated = None if isinstance(ran, str) else lambda _: reserved
    rule = CardRule(of_card(card))
    assert rule.fits(total, simulated) == (rule.status(total, simulated) in FITTING)


@pytest.mark.parametrize("amount", ["80GB", "24GiB"])
@given(total=st.integers(1, 2**38))
def test_what_fits_an_amount_that_was_stated_is_no_more_than_it(amount: str, total: int) -> None:
    rule = CardRule(stated(amount))
    assert rule.fits(total) == (rule.status(total) in FITTING) == (total <= rule.budget.bytes)


@pytest.mark.one_in(32, 1)
@pytest.mark.parametrize("name", [name for name in index() if name not in ENDS])
def test_the_smallest_card_that_is_named_holds_it(name: str) -> None:
    _the_smallest_holds_it(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for place, name in enumerate(sorted(ENDS)) if place % EACH])
def test_the_smallest_card_holds_both_ends_of_a_family(name: str) -> None:
    _the_smallest_holds_it(name)


def _the_smallest_holds_it(name: str) -> None:
    found = overview(load(name))
    for line, question in questions(found):
        named, others = named_and_others(found, line)
        assert all(fits(found, card, question) for card in named[:1]), line
        if line == SERVING:
            assert not any(fits(found, card, question) for card in others[-1:])


@pytest.mark.long(EACH)
@pytest.mark.parametrize("name", sorted(ENDS))
def test_every_card_that_is_named_holds_it_and_no_other(name: str) -> None:
    found = overview(load(name))
    for line, question in questions(found):
        named, others = named_and_others(found, line)
        assert [card for card in named if not fits(found, card, question)] == [], line
        assert [card for card in others if fits(found, card, question)] == [], line


@pytest.mark.one_in(96)
@pytest.mark.parametrize("name", ALL)
def test_all_commands_say_the_same_of_a_card(
    name: str, quick: Quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the smallest card that the overview names for LoRA, and of the largest that it does not name."""
    monkeypatch.chdir(tmp_path)
    found = overview(load(name))
    if "finetune_lora" not in found.gpus:
        return
    named, others = named_and_others(found, "finetune_lora")
    for card, fitting in ((named[:1], True), (others[-1:], False)):
        for one in card:
            asked = (name, "--train", "--lora", "16")
            at_most = quick("solve", f"memory <= {one}", "--for", "batch", *asked, "-q").stdout.strip()
            text = f'[models.a]\npreset = "{name}"\n\n[scenarios.s]\ntrain = true\nlora = 16\n\n'
            text += f'[[budget]]\nmodel = "a"\nscenario = "s"\nfits_gpu = "{one}"\n'
            (tmp_path / "tfcalc.toml").write_text(text, encoding="utf-8")
            held = quick("budget").returncode == 0
            (tmp_path / "tfcalc.toml").unlink()
            verdict = quick("memory", *asked, "--gpu", one, "-q").returncode == 0
            assert (verdict, held, at_most.isdecimal() and int(at_most) > 0) == (fitting, fitting, fitting), one
