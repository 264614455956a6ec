"""JUnit XML, as Jenkins and GitLab read it: a test suite for each model, a test case for each of its checks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from tfcalc.budgets.checks import FAILED, NEW, NOT_COMPARABLE, WARNING
from tfcalc.budgets.formats.amounts import amounts
from tfcalc.budgets.formats.paths import reference
from tfcalc.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

    from tfcalc.budgets.checks import BudgetReport, LimitCheck

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'


def render(checked: BudgetReport) -> str:
    """ASCII, so that it is the same XML in any encoding. Notes are a suite without cases, called as the file is."""
    root = _element("testsuites", {"name": "tfcalc budget", **_counts(checked.checks, ("failures", "errors"))})
    by_model: dict[str, list[LimitCheck]] = {}
    for check in checked.checks:
        by_model.setdefault(check.model, []).append(check)
    for model, checks in by_model.items():
        suite = _element("testsuite", {"name": model, **_counts(checks, ("failures", "errors", "skipped"))})
        names: Counter[str] = Counter()
        for check in checks:
            suite.append(_case(check, names, checked.units))
        root.append(suite)
    if checked.notes:
        suite = _element("testsuite", {"name": checked.file, **_counts((), ("failures", "errors", "skipped"))})
        suite.append(_element("system-out", {}, "\n".join(map(printable, checked.notes))))
        root.append(suite)
    ElementTree.indent(root)
    return f"{DECLARATION}\n{ElementTree.tostring(root, encoding='us-ascii', xml_declaration=False).decode()}"


def _counts(checks: tuple[LimitCheck, ...] | list[LimitCheck], told: tuple[str, ...]) -> dict[str, str]:
    found = Counter(check.status for check in checks)
    of = {"failures": FAILED, "errors": NOT_COMPARABLE, "skipped": NEW}
    return {"tests": str(len(checks)), **{key: str(found[of[key]]) for key in told}}


def _case(check: LimitCheck, names: Counter[str], units: str) -> Element:
    """The name does not depend on values or limits, so that a CI system can follow a test case through its runs."""
    name = f"{check.metric} {check.rule}" + (f" ({check.scenario})" if check.scenario else "")
    names[name] += 1
    if names[name] > 1:
        name += f" #{names[name]}"
    case = _element("testcase", {"classname": check.model, "name": name})
    if check.status == FAILED:
        case.append(_element("failure", {"type": check.rule, "message": check.message}, _details(check, units)))
    elif check.status == NOT_COMPARABLE:
        case.append(_element("error", {"type": check.status, "message": check.message}, _details(check, units)))
    elif check.status == NEW:
        case.append(_element("skipped", {"message": check.message}))
    elif check.status == WARNING:
        case.append(_element("system-out", {}, f"warning: {printable(check.message)}\n{_details(check, units)}"))
    return case


def _details(check: LimitCheck, units: str) -> str:
    told = amounts(check, units)
    lines = {
        "metric": check.metric,
        "before": " ".join(filter(None, (told.before, check.base_name and f"({check.base_name})"))),
        "after": " ".join(filter(None, (told.after, told.change and f"({told.change})"))),
        "limit": f"{check.rule} {check.limit}",
        "why": check.why,
        "at": f"{reference(check.path)}:{max(check.line, 1)}",
    }
    return "\n".join(f"{key}: {printable(value)}" for key, value in lines.items() if value)


def _element(tag: str, attributes: Mapping[str, str], text: str | None = None) -> Element:
    """XML 1.0 has no form for most control characters and for half characters: what cannot be seen is written out."""
    element = ElementTree.Element(tag, {key: printable(value) for key, value in attributes.items()})
    element.text = text
    return element
