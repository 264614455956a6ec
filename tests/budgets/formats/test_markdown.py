"""The pull-request comment, read by a Markdown parser: its table has these cells and no other element."""

from __future__ import annotations

import html
import re

import pytest
from markdown_it import MarkdownIt

from tests.budgets.formats.examples import EXAMPLES, GIB, HOSTILE, check, checked, hostile
from tfcalc.budgets.checks import BudgetReport
from tfcalc.budgets.formats import written
from tfcalc.budgets.limits import Limit

MENTION = re.compile(r"(?<!\w)[@#]\w")
"""What GitHub makes a link of, wherever it is text that is not code."""
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TAGS = {"p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary"}


def page(checks: BudgetReport) -> str:
    rendered: str = PARSER.render(written(checks, "markdown"))
    return rendered


def cells(checks: BudgetReport) -> list[list[str]]:
    """The text of each cell of each row, as a reader sees it."""
    rows = re.findall(r"<tr>(.*?)</tr>", page(checks), flags=re.DOTALL)
    return [[seen(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def seen(source: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", source)).replace("\N{ZERO WIDTH SPACE}", "")


def printed(text: str) -> str:
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def test_a_failed_check() -> None:
    assert cells(checked(check())) == [
        ["result", "model", "scenario", "metric", "before", "after", "limit", "why"],
        [
            "failed",
            "chat",
            "finetune",
            "memory.peak_bytes",
            "16.0 GiB",
            "32.0 GiB (+100.0 %)",
            "max 24GiB",
            "one RTX 4090 per worker",
        ],
    ]
    assert "Compared with <code>origin/main</code>." in page(checked(check()))


def test_a_column_without_any_cell_is_left_out() -> None:
    bare = check(scenario=None, base=None, base_name="", why="")
    assert cells(checked(bare))[0] == ["result", "model", "metric", "after", "limit"]
    assert "Compared with" not in page(checked(bare))


def test_what_passed_is_folded() -> None:
    text = page(EXAMPLES["passed"])
    assert "<table>" not in text
    assert "<details><summary>1 passed</summary>" in text
    assert "<p><code>chat</code> <code>memory.peak_bytes</code> 32.0 GiB (<code>max 24GiB</code>)</p>" in text


@pytest.mark.parametrize("status", ["new", "not comparable", "warning"])
def test_what_numbers_do_not_tell_is_told_in_words(status: str) -> None:
    told = check(status, message="recorded with other conventions")
    assert "<li>recorded with other conventions</li>" in page(checked(told))
    assert "<li>" not in page(checked(check()))


def test_different_values_look_different() -> None:
    """One byte over 24 GiB is 24.0 GiB when it is rounded; 10.04 % more is 10.0 %."""
    over = check(value=24 * GIB + 1, base=24 * GIB)
    assert cells(checked(over))[1][4:6] == ["25,769,803,776 B", "25,769,803,777 B (+0.0 %)"]
    grown = check(value=11_004, base=10_000, unit="params", limit=Limit("10%", 10.0, percent=True))
    assert cells(checked(grown))[1][4:6] == ["10k", "11k (+10.040 %)"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_text_is_text_in_its_cell_and_nothing_else(text: str) -> None:
    heading, *rows = cells(hostile(text))
    assert len(rows) == 4  # all but what passed
    expected = re.sub(" +", " ", printed(text).strip())
    for row in rows:
        told = dict(zip(heading, row, strict=True))
        for name in ("model", "scenario", "metric", "why"):
            assert re.sub(" +", " ", told[name].strip()) == expected
    source = page(hostile(text))
    assert set(re.findall(r"</?([a-z0-9]+)", source)) <= TAGS
    assert source.count("<table>") == source.count("<details>") == source.count("<ul>") == 1
    assert not MENTION.search(html.unescape(re.sub(r"<code>.*?</code>|<[^>]+>", " ", source, flags=re.DOTALL)))


def test_the_parser_would_find_a_mention_and_a_tag() -> None:
    """The test above can fail."""
    for mention in ("says @ada", "(#12)"):
        assert MENTION.search(mention)
    for source, tag in {"# heading": "h1", "[a](b)": "a", "~~a~~": "s", "a <b>c</b>": "b"}.items():
        assert f"<{tag}" in PARSER.render(source)
        assert tag not in TAGS
