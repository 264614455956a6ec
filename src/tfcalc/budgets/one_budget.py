"""One [[budget]] of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime

from tfcalc.budgets import metric
from tfcalc.budgets.file import Budget
from tfcalc.budgets.keys import BUDGET, ERROR, MOST_PATTERNS, SEVERITIES
from tfcalc.budgets.limits import EQUALS, MAX, MIN, RULES, Amount, amount, warning
from tfcalc.errors import BadFile, TfcalcError, UsageError, nearest, one_of
from tfcalc.printable import quoted


def budget(table: Mapping[str, object], place: str, line: int) -> Budget:
    """What one table says; ``place`` is where it stands. Raises BadFile."""
    try:
        return _budget(table, line)
    except TfcalcError as error:
        raise BadFile(f"{place}: {error.message}", error.hint) from None


def _budget(table: Mapping[str, object], line: int) -> Budget:
    known = {key.name: key for key in BUDGET}
    for name in table:
        if name not in known:
            raise UsageError(f"key {quoted(name)} is not known", nearest(name, known))
    for key in BUDGET:
        if key.needed and key.name not in table:
            raise UsageError(f"it has no {key.name}", f'write {key.name} = "{key.example}"')
    path = _text(table, "metric")
    asked = metric.read(path)
    limits = limits_of(table, asked.unit)
    severity = one_of("severity", table.get("severity", ERROR), SEVERITIES)  # type: ignore[arg-type]  # it refuses what is no text
    return Budget(
        models=_patterns(table["model"]),
        scenario=_text(table, "scenario") if "scenario" in table else None,
        metric=path,
        limits=limits,
        warn=_warn(table["warn"], limits, asked.unit) if "warn" in table else None,
        severity=severity,
        why=_text(table, "why") if "why" in table else "",
        expires=_date(table["expires"]) if "expires" in table else None,
        line=line,
    )


def _text(table: Mapping[str, object], name: str) -> str:
    value = table[name]
    if not isinstance(value, str):
        raise UsageError(f"{name} {quoted(value)} is not text", "put it in quotes")
    if not value.strip() and name != "why":
        raise UsageError(f"{name} is empty", "write it, or leave the key out")
    return value.strip()


def _patterns(value: object) -> tuple[str, ...]:
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(one, str) and one.strip() for one in found):
        raise UsageError(f"model {quoted(value)} is neither a name nor a list of names", 'write model = "chat*"')
    if len(found) > MOST_PATTERNS:
        raise UsageError(f"model has {len(found)} names", f"the most are {MOST_PATTERNS}: write a pattern, such as *")
    return tuple(found)


def limits_of(table: Mapping[str, object], unit: str) -> dict[str, Amount]:
    """The limits of a metric in this unit. Raises UsageError where there is none, or two leave nothing between them."""
    limits = {rule: amount(table[rule], rule, unit) for rule in RULES if rule in table}
    if not limits:
        raise UsageError("it has no limit", f"write one of {', '.join(RULES)}")
    if EQUALS in limits and (others := [rule for rule in (MAX, MIN) if rule in limits]):
        raise UsageError(f"it has equals and {others[0]}", "leave one of them out")
    if MAX in limits and MIN in limits and limits[MAX].value < limits[MIN].value:
        raise UsageError(f"max {limits[MAX].text} is below min {limits[MIN].text}", "exchange them")
    return limits


def _warn(value: object, limits: Mapping[str, Amount], unit: str) -> Amount:
    """Beyond what there is a warning: on the near side of the one limit, and written as it."""
    if len(limits) > 1 or EQUALS in limits:
        beside = "equals" if EQUALS in limits else " and ".join(limits)
        raise UsageError(f"warn {quoted(value)} is beside {beside}", "write it beside one max, min or change")
    (rule, limit), *_ = limits.items()
    found = warning(value, rule, unit)
    if found.percent != limit.percent:
        form = "a percentage" if limit.percent else "an amount"
        raise UsageError(f"warn {found.text} is not {form}, which {rule} {limit.text} is", "write both in the same way")
    if (found.value < limit.value) if rule == MIN else (found.value > limit.value):
        side = "above" if rule == MIN else "below"
        raise UsageError(
            f"warn {found.text} is beyond {rule} {limit.text}", f"it is a warning in advance: write one {side} it"
        )
    return found


def _date(value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise UsageError(f"expires {quoted(str(value))} is not a date", "write expires = 2027-01-31")
