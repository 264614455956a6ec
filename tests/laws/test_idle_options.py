"""An option that changes nothing is refused: each option beside each question, with a few values of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.laws.idle_options import Question, Tried, options_beside, questions, reason, tried

ALL = list(questions())
EACH = 9
"""Of as many options the standard test tries one, another one beside each question."""


def _without_reason(found: list[Tried]) -> list[str]:
    return [
        f"{each.question}: {', '.join(each.accepted)}"
        for each in found
        if each.idle and not reason(each.question, each.option)
    ]


@pytest.mark.one_in(24, 0)
@pytest.mark.parametrize("place", range(len(ALL)), ids=lambda place: str(ALL[place]))
def test_an_option_beside_a_question_changes_its_answer_or_is_refused(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = list(options_beside(ALL[place]))[place % EACH :: EACH]
    assert not _without_reason(list(tried(ALL[place], options)))


@pytest.mark.long
@pytest.mark.parametrize("question", ALL, ids=str)
def test_each_option_beside_each_question_changes_its_answer_or_is_refused(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not _without_reason(list(tried(question)))
