"""The cards that an overview names are those on which the command that its line names says that it fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.laws.presets import ENDS
from tfcalc.answers.overview import METHODS, Overview, overview
from tfcalc.answers.verdict import memory_within
from tfcalc.catalog import index, load
from tfcalc.defaults import compute_dtype, served_dtype
from tfcalc.plans import Serving
from tfcalc.search.gpus import common, of_card

SERVING = "serving"

EACH = 4
"""Of as many ends of families one is asked about every card in CI."""

Question = dict[str, Any]
"""What is asked beside the model and the card, by the names of arguments."""


def questions(found: Overview) -> Iterator[tuple[str, Question]]:
    """What the command of each line asks that names cards."""
    if SERVING in found.gpus:
        yield SERVING, {"serving": Serving(context=found.served_context)}
    step = found.workload.replaced(phase="train")
    for method, (_, plan, _) in METHODS.items():
        if f"finetune_{method}" in found.gpus:
            yield f"finetune_{method}", {"workload": step, "training": plan}


def named_and_others(found: Overview, line: str) -> tuple[list[str], list[str]]:
    """The cards that a line names, and those that compute in the model's format and that it does not name."""
    named = [gpu.name for gpu in found.gpus[line]()]
    dtype = served_dtype(found.of) if line == SERVING else compute_dtype(found.of)
    computing = [gpu.name for gpu in common() if dtype in gpu.peaks]
    return named, [name for name in computing if name not in named]


def fits(found: Overview, card: str, question: Question) -> bool:
    """The verdict of ``tfcalc memory --gpu``."""
    return memory_within(found.of, of_card(card), **question).fits


@pytest.mark.one_in(32)
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
        assert [card for card in others[-2:] if fits(found, card, question)] == [], line
