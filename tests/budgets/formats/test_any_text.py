"""Random text where text from outside is: what HOSTILE does not think of."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budgets.formats.examples import hostile
from tests.budgets.formats.schemas import invalid
from tests.budgets.formats.test_github import commands
from tests.budgets.formats.test_markdown import cells, printed
from tfcalc.budgets.formats import FORMATS, written

MARKS = st.sampled_from("|`<>&@#[]()*_~\\\n\r:%,-+=!$1 ")
CHARACTERS = st.characters(exclude_categories=())
"""All of Unicode, with the halves of surrogate pairs."""


@settings(max_examples=100, deadline=None)
@given(st.text(st.one_of(CHARACTERS, MARKS), min_size=1, max_size=12))
def test_any_text_is_text(text: str) -> None:
    for form in FORMATS:
        written(hostile(text), form).encode("utf-8")
    assert not invalid("junit", written(hostile(text), "junit"))
    assert not invalid("sarif", written(hostile(text), "sarif"))
    assert len(commands(hostile(text))) == 5
    heading, *rows = cells(hostile(text))
    assert [" ".join(dict(zip(heading, row, strict=True))["why"].split()) for row in rows] == [
        " ".join(printed(text).split())
    ] * 4
