"""``tfcalc budget`` in a repository whose pull request doubles the key-value heads, in each format of CI systems."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.budgets.formats.schemas import invalid
from tests.budgets.sample import CACHE, CHAT, FILES, KV_HEADS, WHY, sample
from tfcalc.budgets.formats import FORMATS
from tfcalc.cli.main import main

Ask = Callable[..., tuple[int, str]]
CONFIG = "configs/chat.json"
DOUBLED = FILES[CONFIG].replace(f'"num_key_value_heads": {KV_HEADS}', f'"num_key_value_heads": {2 * KV_HEADS}')
LINE = list(CHAT).index("num_key_value_heads") + 2  # a line for each field, after that of the brace
SCHEMAS = ("junit", "sarif", "gitlab")


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The exit code and the output of tfcalc budget, where a file of the sample is another one than at HEAD."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    sample(tmp_path)

    def asked(*words: str, path: str = CONFIG, text: str = DOUBLED) -> tuple[int, str]:
        (tmp_path / path).write_text(text, encoding="utf-8")
        code = main(["budget", "--base", "HEAD", *words])
        out, err = capsys.readouterr()
        assert err == ""
        return code, out

    return asked


@pytest.mark.parametrize("form", FORMATS)
def test_twice_the_key_value_heads_fail_with_all_that_a_reviewer_asks(ask: Ask, form: str) -> None:
    assert CACHE == 4 * 2**30
    code, out = ask("--format", form)
    assert code == 1
    for what in ("memory.kv_cache_bytes", "4.00 GiB", "8.00 GiB", "max_increase", "10", WHY, "chat", "serving"):
        assert what in out
    assert form not in SCHEMAS or not invalid(form, out)


def test_findings_are_at_the_line_that_moved_the_number(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (".", "configs"):
        monkeypatch.chdir(tmp_path / folder)
        place = {"path": CONFIG, "lines": {"begin": LINE}}
        assert json.loads(ask("--format", "gitlab")[1])[0]["location"] == place
        assert ask("--format", "github")[1].startswith(f"::error file={CONFIG},line={LINE},title=chat")
        [result] = json.loads(ask("--format", "sarif")[1])["runs"][0]["results"]
        found = result["locations"][0]["physicalLocation"]
        assert found == {"artifactLocation": {"uri": CONFIG}, "region": {"startLine": LINE}}


@pytest.mark.parametrize("form", FORMATS)
def test_a_comment_changes_nothing(ask: Ask, form: str) -> None:
    commented = FILES["tfcalc.toml"].replace("[models.chat]", "# the one that is served\n[models.chat]")
    code, out = ask("--format", form, path="tfcalc.toml", text=commented)
    assert code == 0
    match form:
        case "github":
            assert out == "passed: 3 checks\n"
        case "gitlab":
            assert out == "[]\n"
        case "sarif":
            assert json.loads(out)["runs"][0]["results"] == []
        case "junit":
            assert ElementTree.fromstring(out).attrib == {
                "name": "tfcalc budget",
                "tests": "3",
                "failures": "0",
                "errors": "0",
            }
        case _:
            assert "| ---" not in out


def test_github_gets_a_summary_beside_the_annotations(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _, comment = ask("--format", "markdown")
    assert not summary.exists()
    ask("--format", "github")
    assert summary.read_text(encoding="utf-8") == comment + "\n"


@pytest.mark.parametrize("form", SCHEMAS)
def test_a_report_for_a_program_is_the_same_in_ascii_and_in_a_file(ask: Ask, tmp_path: Path, form: str) -> None:
    (tmp_path / CONFIG).write_text(DOUBLED, encoding="utf-8")
    named = FILES["tfcalc.toml"].replace(WHY, "größer < \N{RIGHT-TO-LEFT OVERRIDE} & |")
    code, out = ask("--format", form, path="tfcalc.toml", text=named)
    assert code == 1
    assert (code, out) == ask("--format", form, "--ascii", path="tfcalc.toml", text=named)
    assert ask("--format", form, "-o", "report", path="tfcalc.toml", text=named) == (code, "")
    assert (tmp_path / "report").read_text(encoding="ascii") == out
    assert not invalid(form, out)


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"markdown"}))
def test_what_is_recorded_has_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tfcalc.toml").write_text(FILES["tfcalc.toml"], encoding="utf-8")
    assert main(["budget", "--update", "--format", form]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tfcalc: --format {form} has no effect with --update; take one of table, json, ")
    assert not (tmp_path / "tfcalc.lock.json").exists()
