"""Workflow commands, read as GitHub's runner reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.budgets.formats.examples import EXAMPLES, HOSTILE, STATUSES, check, checked, hostile
from tfcalc.budgets.checks import BudgetReport, FileLine
from tfcalc.budgets.formats import written
from tfcalc.budgets.formats.github import summarize
from tfcalc.errors import UsageError

COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>.*?))?::(?P<data>.*)")
"""A line that begins with ``::`` is a command up to the next ``::``; the properties in it are separated by commas."""


def commands(checks: BudgetReport) -> list[tuple[str, dict[str, str], str]]:
    """Name, properties and message of each; the last line, which is the verdict, is none."""
    *lines, verdict = written(checks, "github").split("\n")
    assert not verdict.startswith(("::", "##["))
    assert verdict.isprintable()
    found = []
    for line in lines:
        match = COMMAND.fullmatch(line)
        assert match, line
        properties = dict(pair.split("=", 1) for pair in (match["properties"] or "").split(",") if pair)
        found.append((match["name"], {key: read(value) for key, value in properties.items()}, read(match["data"])))
    return found


def read(text: str) -> str:
    """GitHub's runner, ActionCommand.cs: the escapes of its table, the one of % last."""
    for escape, character in {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}.items():
        text = text.replace(escape, character)
    return text


def test_levels() -> None:
    found = commands(EXAMPLES["all"])
    assert [name for name, _, _ in found] == ["error"] * 4 + ["warning"] * 2 + ["notice"] * 3
    assert commands(EXAMPLES["passed"]) == []


def test_a_failed_check_is_an_error_at_its_line() -> None:
    assert commands(checked(check())) == [
        (
            "error",
            {"file": "configs/chat.json", "line": "7", "title": "chat (finetune): memory.peak_bytes: failed"},
            "memory.peak_bytes 16.0 GiB -> 32.0 GiB, 8.00 GiB over max 24GiB: one RTX 4090 per worker",
        )
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_text_is_a_message_and_nothing_else(text: str) -> None:
    found = commands(hostile(text))
    assert [name for name, _, _ in found] == ["error", "error", "warning", "notice", "notice"]
    for _, properties, data in found:
        assert data == "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
        assert set(properties) <= {"file", "line", "title"}


@pytest.mark.parametrize("path", ["a,b.json", "c:d%0A.json", "e::f.json", "two\nlines.json", "größe.json"])
def test_the_path_is_that_of_the_file(path: str) -> None:
    [(_, properties, _)] = commands(checked(check(place=FileLine(path, 0))))
    assert properties["file"] == path
    assert properties["line"] == "1"


def test_the_summary_is_appended_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Tests\n", encoding="utf-8")
    for status in STATUSES[:2]:
        summarize(EXAMPLES[status], {"GITHUB_STEP_SUMMARY": str(file)})
    ours = [written(EXAMPLES[status], "markdown") for status in STATUSES[:2]]
    assert file.read_text(encoding="utf-8") == f"# Tests\n{ours[0]}\n\n{ours[1]}\n\n"


def test_without_the_variable_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    summarize(EXAMPLES["all"], {})
    summarize(EXAMPLES["all"], {"GITHUB_STEP_SUMMARY": ""})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["missing/summary.md", ".", "nul\0"])
def test_a_summary_that_cannot_be_written_is_an_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="GITHUB_STEP_SUMMARY: cannot write"):
        summarize(EXAMPLES["all"], {"GITHUB_STEP_SUMMARY": f"{tmp_path}/{path}"})
