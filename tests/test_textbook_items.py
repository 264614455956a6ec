"""What five textbook texts state, item by item, and how tfcalc answers it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import recorded
from tests.textbook_answers import ANSWERS, Answer, Ask, Compare, Not, Read
from tfcalc.cli.main import main

ROOT = Path(__file__).parents[1]
ITEMS = recorded("textbook_items.jsonl")
TEXT = " ".join("".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "formulas.md")).split())


@pytest.fixture(autouse=True)
def _as_wide_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def answer(place: int) -> Answer:
    """That of today: the recorded command, where no other one stands in textbook_answers.py."""
    if place in ANSWERS:
        return ANSWERS[place]
    row: dict[str, Any] = ITEMS[place]
    recorded_command = row["command_of_0.1.0"]
    if recorded_command.startswith("doc:"):
        return Read(recorded_command.removeprefix("doc:"))
    return Ask(recorded_command, row["expected"])


def command(place: int) -> tuple[str, str]:
    """The command, and what it prints."""
    found = answer(place)
    assert isinstance(found, Ask | Compare)
    return found.command, found.expected


def names(kind: type) -> list[Any]:
    """The items that are answered so."""
    return [
        pytest.param(place, id=f"{place}-{row['item'][:40]}")
        for place, row in enumerate(ITEMS)
        if isinstance(answer(place), kind)
    ]


def plain(text: str) -> str:
    """Without what only layout needs: runs of spaces, and the dots of products."""
    return " ".join(text.replace("·", "").split())


def asked(command: str) -> str:
    """What the program prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(shlex.split(command))
    return out.getvalue()


@pytest.mark.parametrize("place", names(Ask))
def test_a_command_answers(place: int) -> None:
    words, expected = command(place)
    found = plain(asked(words))
    assert found == plain(expected) if words.endswith(" -q") else plain(expected) in found


@pytest.mark.parametrize("place", names(Read))
def test_the_course_says(place: int) -> None:
    found = answer(place)
    assert isinstance(found, Read)
    assert re.search(found.pattern, TEXT)


@pytest.mark.torch
@pytest.mark.parametrize("place", names(Compare))
def test_pytorch_agrees(place: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    words, expected = command(place)
    assert expected in plain(asked(words))


def test_all_items_have_an_answer_or_a_reason() -> None:
    kinds = [type(answer(place)) for place in range(len(ITEMS))]
    assert len(kinds) == 317
    assert kinds.count(Not) <= 9
    assert all(answer(place)[-1] for place in range(len(ITEMS)))
    assert set(ANSWERS) <= set(range(len(ITEMS)))


def test_what_the_course_alone_answers_is_no_number() -> None:
    """Definitions, advice, and what a calculator does not run: at most four."""
    read = [place for place, _ in enumerate(ITEMS) if isinstance(answer(place), Read)]
    assert len(read) <= 4


@pytest.mark.parametrize("reach", [15, 16, 17])
def test_the_best_reach_of_sparse_attention_pair_by_pair(reach: int) -> None:
    """k = √(512/2) = 16: pairs as the text defines them, 4h FLOPs each, beside 24lh² of every one of 6 layers."""
    length, width = 512, 512
    seen = [abs(i - j) <= reach or (i - j) % reach == 0 for i in range(length) for j in range(length)]
    right = 6 * (24 * length * width**2 + 4 * width * sum(seen))
    assert int(asked(f"flops --kind encoder --seq 512 --pattern sparse:{reach} -q")) == right
    assert right >= 19_714_473_984  # that of 16
