"""Every document conforms to the schema of its format; one with a fault does not."""

from __future__ import annotations

import json

import pytest

from tests.budgets.formats.examples import EXAMPLES, HOSTILE, check, checked, hostile
from tests.budgets.formats.schemas import gitlab, invalid, sarif
from tfcalc.budgets.formats import written

FORMS = ("junit", "sarif", "gitlab")
FAULTS = {
    "junit": [
        ('tests="1"', 'tests="one"'),
        (' classname="chat"', ""),
        (' message="', ' msg="'),
        ('errors="0"', 'errors="-1"'),
        ("testcase", "test"),
        ('<testsuite name="chat"', '<testsuite name="chat" hostname="ci-7"'),
    ],
    "sarif": [
        ('"version": "2.1.0"', '"version": "2.2"'),
        ('"level": "error"', '"level": "critical"'),
        ('"startLine": 7', '"startLine": 0'),
        ('"text": "memory', '"txt": "memory'),
        ('"name": "tfcalc"', '"called": "tfcalc"'),
        ('"ruleIndex": 0', '"ruleIndex": -2'),
        ('"uri"', '"path"'),
    ],
    "gitlab": [
        ('"severity": "major"', '"severity": "error"'),
        ('"begin": 7', '"begin": 0'),
        ('"fingerprint"', '"hash"'),
        ('"path": "', '"path": "/'),
        ('"path": "', '"path": "./'),
        ('"description": "', '"description": "a\\n'),
    ],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_document_is_valid(form: str, example: str) -> None:
    assert invalid(form, written(EXAMPLES[example], form)) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_makes_a_document_invalid(form: str, text: str) -> None:
    document = written(hostile(text), form)
    document.encode("ascii")
    assert invalid(form, document) == []


@pytest.mark.parametrize(("form", "good", "bad"), [(form, *fault) for form in FORMS for fault in FAULTS[form]])
def test_a_fault_is_found(form: str, good: str, bad: str) -> None:
    document = written(checked(check()), form)
    assert good in document
    assert invalid(form, document.replace(good, bad)) != []


@pytest.mark.parametrize("missing", ["description", "check_name", "fingerprint", "severity", "location"])
def test_every_property_of_a_finding_is_needed_by_gitlab(missing: str) -> None:
    [finding] = json.loads(written(checked(check()), "gitlab"))
    assert gitlab().is_valid([finding])
    assert not gitlab().is_valid([{key: value for key, value in finding.items() if key != missing}])


def test_the_schema_of_sarif_is_the_one_that_the_document_names() -> None:
    document = json.loads(written(checked(), "sarif"))
    assert document["$schema"] == "https://json.schemastore.org/sarif-2.1.0.json"
    assert "(SARIF) Version 2.1.0 JSON Schema" in str(sarif().schema)
