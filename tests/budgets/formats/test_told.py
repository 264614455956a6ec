"""Every format tells of every failed check its metric, the old and the new value, the limit and the reason."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.budgets.formats.examples import EXAMPLES, GIB, HOSTILE, STATUSES, check, checked, hostile
from tfcalc.budgets.checks import BudgetReport, FileLine
from tfcalc.budgets.formats import FORMATS, written
from tfcalc.budgets.formats.findings import RULES, findings
from tfcalc.budgets.limits import RULES as LIMITS


@pytest.mark.parametrize("form", FORMATS)
def test_all_that_a_failed_check_is_about(form: str) -> None:
    told = written(checked(check()), form)
    for what in ("memory.peak_bytes", "16.0 GiB", "32.0 GiB", "max 24GiB", "one RTX 4090 per worker", "chat"):
        assert what in told


@pytest.mark.parametrize("form", FORMATS)
def test_the_values_are_told_where_the_message_is_silent(form: str) -> None:
    """All but those formats that are a place and a message have them beside it."""
    told = written(checked(check(message="over budget")), form)
    expected = {
        "junit": (
            "before: 16.0 GiB (origin/main)",
            "after: 32.0 GiB (+100.0 %)",
            "limit: max 24GiB",
            "why: one RTX 4090",
        ),
        "sarif": (
            f'"base": {16 * GIB}',
            f'"value": {32 * GIB}',
            '"limit": "24GiB"',
            '"why": "one RTX 4090 per worker"',
        ),
        "markdown": ("| 16.0 GiB |", "| 32.0 GiB (+100.0 %) |", "| `max 24GiB` |", "| one RTX 4090 per worker |"),
    }
    for what in expected.get(form, ("over budget",)):
        assert what in told


@pytest.mark.parametrize("form", FORMATS)
def test_what_passed_or_is_new_is_no_finding(form: str) -> None:
    passed = written(checked(check("passed"), check("new")), form)
    marks = {"github": "::error", "junit": "<failure", "sarif": '"ruleIndex"', "gitlab": "{", "markdown": "failed |"}
    assert marks[form] not in passed
    assert marks[form] in written(checked(check()), form)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_every_document_can_be_encoded_and_shows_no_control_character(form: str, text: str) -> None:
    document = written(hostile(text), form)
    document.encode("utf-8")
    path = text if form == "github" else ""  # as it is, since GitHub has to find the file
    assert all(one.isprintable() or one == "\n" or one in path for one in document)


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_checks_are_the_same_bytes(form: str) -> None:
    first, second = (written(EXAMPLES["all"], form) for _ in range(2))
    assert first == second
    assert not first.endswith("\n")


def test_every_rule_has_its_sentence() -> None:
    assert set(RULES) == {*LIMITS, "expires", "not_comparable"}


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_check() -> None:
    root = ElementTree.fromstring(written(EXAMPLES["two models"], "junit"))
    assert [(suite.get("name"), len(suite), suite.get("failures")) for suite in root] == [
        ("chat", 1, "1"),
        ("embed", 2, "0"),
    ]
    assert [case.findtext("system-out", "").split(":")[0] for case in root.iter("testcase")] == ["", "warning", ""]


def test_junit_says_what_became_of_each_case() -> None:
    root = ElementTree.fromstring(written(checked(*map(check, STATUSES)), "junit"))
    cases = list(root.iter("testcase"))
    assert [[inner.tag for inner in case] for case in cases] == [
        [],
        ["system-out"],
        ["failure"],
        ["skipped"],
        ["error"],
    ]
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    assert root.attrib == {"name": "tfcalc budget", "tests": "5", "failures": "1", "errors": "1"}


def fingerprints(checks: BudgetReport) -> list[str]:
    of_sarif = [
        result["partialFingerprints"]["primaryLocationLineHash"]
        for result in json.loads(written(checks, "sarif"))["runs"][0]["results"]
    ]
    of_gitlab: list[str] = [finding["fingerprint"] for finding in json.loads(written(checks, "gitlab"))]
    assert of_sarif == of_gitlab == [one.fingerprint for one in findings(checks)]
    return of_gitlab


def test_a_finding_is_known_again_when_its_numbers_change() -> None:
    moved = check(value=33 * GIB, base=32 * GIB, message="more", why="else", place=FileLine("other.json", 9))
    assert fingerprints(checked(moved)) == fingerprints(checked(check()))


def test_every_other_finding_is_another_one() -> None:
    others: list[dict[str, object]] = [
        {"model": "embed"},
        {"scenario": None},
        {"metric": "params.total"},
        {"rule": "min"},
        {},
    ]
    found = fingerprints(checked(check(), *(check("failed", **other) for other in others)))
    assert len(set(found)) == 6
