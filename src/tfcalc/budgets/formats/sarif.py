"""SARIF 2.1.0, as GitHub code scanning and editors read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tfcalc import __version__
from tfcalc.budgets.checks import FAILED, NOT_COMPARABLE, WARNING
from tfcalc.budgets.formats.findings import RULES, Finding, findings
from tfcalc.budgets.formats.paths import uri
from tfcalc.printable import printable

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {FAILED: "error", NOT_COMPARABLE: "error", WARNING: "warning"}
PREFIX = "tfcalc-budget-"
HELP = (
    "A budget of tfcalc.toml sets this limit. Change the model back, or change the budget and its reason (`why`) in "
    "the same pull request."
)
NOT_COMPARABLE_HELP = (
    "The earlier value was counted by another version or with other conventions, so that a difference does not mean "
    "that the model changed. Record it anew: tfcalc budget --update."
)


def render(checked: BudgetReport) -> str:
    """One run with all rules, and a result for each finding. ASCII, so that it is the same JSON in any encoding."""
    driver = {"name": "tfcalc", "version": __version__, "rules": [_rule(rule) for rule in RULES]}
    results = [_result(one) for one in findings(checked)]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=2, allow_nan=False)


def _rule(rule: str) -> dict[str, object]:
    return {
        "id": PREFIX + rule,
        "shortDescription": {"text": RULES[rule]},
        "fullDescription": {"text": f"{RULES[rule]}."},
        "help": {"text": NOT_COMPARABLE_HELP if rule == "not_comparable" else HELP},
    }


def _result(one: Finding) -> dict[str, object]:
    check = one.check
    exact = check.to_dict()
    told = ("model", "scenario", "metric", "unit", "value", "base", "base_name", "rule", "limit", "why")
    return {
        "ruleId": PREFIX + one.rule,
        "ruleIndex": list(RULES).index(one.rule),
        "level": LEVELS[check.status],
        "message": {"text": _message(check.message)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri(check.path)},
                    "region": {"startLine": max(check.line, 1)},
                }
            }
        ],
        # The one key by which GitHub knows an alert in the next run. Of its own it would hash the line of the file,
        # and show one alert where one line has moved several metrics.
        "partialFingerprints": {"primaryLocationLineHash": one.fingerprint},
        "properties": {key: _shown(exact[key]) for key in told},
    }


def _message(text: str) -> str:
    """Escape plain text for SARIF (3.11): braces would be placeholders, ``[…](…)`` a link.

    >>> _message("{0} [here](1)")
    '{{0}} [here] (1)'
    """
    return printable(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) else value
