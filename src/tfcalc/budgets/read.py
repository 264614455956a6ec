"""Reader of a file of budgets: a TOML table becomes budgets, every mistake an error with its place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from tfcalc import settings_file
from tfcalc.answers.metrics import HEADLINES
from tfcalc.budgets import metric
from tfcalc.budgets.file import Budget, BudgetFile, ModelEntry, Scenario
from tfcalc.budgets.keys import BUDGET, ERROR, LONGEST_NAME, MODEL, MOST, MOST_PATTERNS, SEVERITIES, TOP, VERSION
from tfcalc.budgets.limits import EQUALS, FITS_GPU, MAX, MIN, RULES, Limit, amount, fitting, warning
from tfcalc.budgets.patterns import NamePatterns
from tfcalc.dimensions import Choice, facet
from tfcalc.errors import BadFile, TfcalcError, UsageError, nearest, one_of
from tfcalc.printable import quoted
from tfcalc.toml_lines import lines_of_tables
from tfcalc.workload import Conventions

if TYPE_CHECKING:
    from tfcalc.budgets.keys import KnownOptions


def budget(table: Mapping[str, object], place: str, line: int) -> Budget:
    """Read one [[budget]]; ``place`` is its position in the file, for errors. Raises BadFile."""
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
    if FITS_GPU in table:
        beside = [name for name in ("metric", *RULES, "warn") if name in table]
        if beside:
            raise UsageError(f"it has {FITS_GPU} and {beside[0]}", "write them as two budgets")
    elif "metric" not in table:
        raise UsageError("it has no metric", f'write metric = "{HEADLINES["peak"].path}", or fits_gpu = "h100"')
    path = _text(table, "metric") if "metric" in table else ALL_MEMORY
    asked = metric.read(path)
    limits = {FITS_GPU: fitting(_text(table, FITS_GPU))} if FITS_GPU in table else limits_of(table, asked.unit)
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


ALL_MEMORY = HEADLINES["memory"].path
"""Metric of a budget by a card: the memory of the whole, at its peak."""


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


def limits_of(table: Mapping[str, object], unit: str) -> dict[str, Limit]:
    """The limits of a metric in this unit. Raises UsageError where there is none, or two leave nothing between them."""
    limits = {rule: amount(table[rule], rule, unit) for rule in RULES if rule in table}
    if not limits:
        raise UsageError("it has no limit", f"write one of {', '.join(RULES)}")
    if EQUALS in limits and (others := [rule for rule in (MAX, MIN) if rule in limits]):
        raise UsageError(f"it has equals and {others[0]}", "leave one of them out")
    if MAX in limits and MIN in limits and limits[MAX].value < limits[MIN].value:
        raise UsageError(f"max {limits[MAX].text} is below min {limits[MIN].text}", "exchange them")
    return limits


def _warn(value: object, limits: Mapping[str, Limit], unit: str) -> Limit:
    """Threshold of a warning: on the near side of the one limit, and written in the same form."""
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


def read_budgets(text: str, path: str, known: KnownOptions | None = None) -> BudgetFile:
    """Read the budgets in the ``text`` of a file of this name.

    Where ``known`` options are given, another at the top of the file, in a model or in a scenario is refused, and each
    is called by its one name. Raises BadFile with the place of the mistake and what would do.
    """
    table = settings_file.table_of(text, path)
    if table is None:
        raise BadFile(f"{path} has no [tool.tfcalc]", "write it, or a tfcalc.toml: tfcalc init")
    _check_top(table, path, known)
    models = {
        name: _model(name, one, f"{path}: models.{name}", known) for name, one in _named(table, "models", path).items()
    }
    scenarios = {
        name: Scenario(
            name,
            _options(
                one, f"{path}: scenarios.{name}", known and known.scenario, known and (known.model, "[models.NAME]")
            ),
        )
        for name, one in _named(table, "scenarios", path).items()
    }
    budgets = _budgets(table, text, path)
    _check_names(budgets, models, scenarios, path)
    budgets = tuple(_on_card(one, scenarios, called(path, number, one.line)) for number, one in enumerate(budgets, 1))
    return BudgetFile(path, _conventions(table, path), models, scenarios, budgets)


def _on_card(one: Budget, scenarios: dict[str, Scenario], place: str) -> Budget:
    """The budget of what its scenario takes on the card that it is to fit on: a further scenario. Raises BadFile."""
    if FITS_GPU not in one.limits:
        return one
    card = one.limits[FITS_GPU].text
    options = scenarios[one.scenario].options if one.scenario is not None else {}
    if "gpu" in options:
        fact = f"{place}: {FITS_GPU} {card} is beside gpu {options['gpu']} of scenario {one.scenario}"
        raise BadFile(fact, "leave one of them out")
    name = f"{one.scenario} on {card}" if one.scenario is not None else f"on {card}"
    scenarios[name] = Scenario(name, {**options, "gpu": card})
    return replace(one, scenario=name)


def _check_top(table: Mapping[str, object], path: str, known: KnownOptions | None) -> None:
    own = [key.name for key in TOP]
    others = [name for name in table if name not in own] if known else []
    options = known.top() if known and others else {}
    for name in others:
        if name.replace("-", "_") not in options:
            raise BadFile(f"{path}: key {quoted(name)} is not known", nearest(name, [*own, *options]))
    version = table.get("version", VERSION)
    if version is True or version != VERSION:
        raise BadFile(f"{path}: version {quoted(version)} is not known", f"write version = {VERSION}")


def _table(value: object, place: str, write: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadFile(f"{place} is no table", f"write {write}")
    return value


def _named(table: Mapping[str, object], key: str, path: str) -> dict[str, Mapping[str, object]]:
    """The tables under ``key``, by name."""
    found = _table(table.get(key, {}), f"{path}: {key}", f"[{key}.NAME]")
    if len(found) > MOST:
        raise BadFile(f"{path} has {len(found):,} {key}", f"the most are {MOST}: divide the file")
    for name, value in found.items():
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise BadFile(
                f"{path}: {key} has the name {quoted(name)}", f"give it 1 to {LONGEST_NAME} printable characters"
            )
        _table(value, f"{path}: {key}.{name}", f"[{key}.{name}]")
    return {name: _table(value, "", "") for name, value in found.items()}


def _conventions(table: Mapping[str, object], path: str) -> dict[str, object]:
    """Read [conventions], each a known word."""
    place = f"{path}: conventions"
    known = {item.name: item for item in fields(Conventions)}
    given = _table(table.get("conventions", {}), place, "[conventions]")
    found: dict[str, object] = {}
    for name, value in given.items():
        if name not in known:
            raise BadFile(f"{place}: key {quoted(name)} is not known", nearest(name, known))
        choice = facet(known[name])
        try:
            found[name] = one_of(name, value, choice.known) if isinstance(choice, Choice) else value  # type: ignore[arg-type]  # one_of refuses what is no text
        except TfcalcError as error:
            raise BadFile(f"{place}: {error.message}", error.hint) from None
    return found


def _options(
    table: Mapping[str, object],
    place: str,
    known: Mapping[str, str] | None,
    elsewhere: tuple[Collection[str], str] | None,
    besides: Collection[str] = (),
) -> dict[str, object]:
    """The options of a table by their names, with their values in TOML; others are known ``elsewhere``."""
    found: dict[str, object] = {}
    called: dict[str, str] = {}
    for written, value in table.items():
        key = written.replace("-", "_")
        if key in besides:
            continue
        if known is not None and key not in known:
            is_there = elsewhere and key in elsewhere[0]
            hint = f"write it in {elsewhere[1]}" if elsewhere and is_there else nearest(key, [*besides, *known])
            raise BadFile(f"{place}: key {quoted(written)} is not known" + " here" * bool(is_there), hint)
        name = known[key] if known is not None else key
        if name in found:
            raise BadFile(f"{place}: {called[name]} and {written} are the same option", "leave one of them out")
        if not isinstance(value, str | int | float):
            raise BadFile(
                f"{place}: {written} {quoted(value)} is not a single value", "write a text, a number or a bool"
            )
        found[name], called[name] = value, written
    return found


def _model(name: str, table: Mapping[str, object], place: str, known: KnownOptions | None) -> ModelEntry:
    """A model of the file: of a config, of a preset, or of sizes alone."""
    own = [key.name for key in MODEL]
    texts: dict[str, str | None] = {}
    for key in own:
        value = table.get(key)
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise BadFile(f"{place}: {key} {quoted(value)} is no name", f"write {key} in quotes")
        texts[key] = value
    config, preset = texts["config"], texts["preset"]
    if config and preset:
        raise BadFile(
            f"{place} has the config {quoted(config)} and the preset {quoted(preset)}", "leave one of them out"
        )
    options = _options(table, place, known and known.model, known and (known.scenario, "[scenarios.NAME]"), own)
    if not config and not preset and not options:
        raise BadFile(f"{place} is empty", "give it a config, a preset or sizes")
    if config and _is_absolute(config):
        raise BadFile(f"{place}: config {quoted(config)} is absolute", "write the path from the folder of this file")
    if config and not config.isprintable():
        raise BadFile(
            f"{place}: config {quoted(config)} is no name of a file", "write the path from the folder of this file"
        )
    return ModelEntry(name, config, preset, options)


def _is_absolute(path: str) -> bool:
    """Return whether a path is absolute on any system, where it would name another file on another machine."""
    return path.startswith(("/", "\\", "~")) or path[1:3] in (":\\", ":/")


def _budgets(table: Mapping[str, object], text: str, path: str) -> tuple[Budget, ...]:
    given = table.get("budget", [])
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        raise BadFile(f"{path}: budget is not a list of tables", "write [[budget]] above each")
    if len(given) > MOST:
        raise BadFile(f"{path} has {len(given):,} budgets", f"the most are {MOST}: divide the file")
    places = lines_of_tables(text, (*settings_file.section(path), "budget"), len(given))
    return tuple(
        budget(one, called(path, number, line), line)
        for number, (one, line) in enumerate(zip(given, places, strict=True), 1)
    )


def called(path: str, number: int, line: int) -> str:
    """``tfcalc.toml: budget 3 (line 41)``; without its line where that may be another's."""
    return f"{path}: budget {number} (line {line})" if line > 1 or number == 1 else f"{path}: budget {number}"


def _check_names(budgets: Collection[Budget], models: Collection[str], scenarios: Collection[str], path: str) -> None:
    """Raise BadFile where a budget names a model or a scenario that the file does not have, or is a duplicate."""
    seen: dict[tuple[object, ...], int] = {}
    names = NamePatterns(models)
    for number, one in enumerate(budgets, 1):
        place = called(path, number, one.line)
        for pattern in one.models:
            if not names.of(pattern):
                hint = nearest(pattern, models) if models else "add [models.NAME] with its config"
                raise BadFile(f"{place}: model {quoted(pattern)} matches none of [models]", hint)
        if one.scenario is not None and one.scenario not in scenarios:
            hint = nearest(one.scenario, scenarios) if scenarios else f"add [scenarios.{one.scenario}]"
            raise BadFile(f"{place}: scenario {quoted(one.scenario)} is not defined", hint)
        limits = tuple(  # cards of one size are not one card
            (rule, limit.value, limit.percent, limit.text if rule == FITS_GPU else "")
            for rule, limit in one.limits.items()
        )
        same = (one.models, one.scenario, one.metric, limits, one.warn and one.warn.value, one.severity, one.expires)
        if same in seen:
            raise BadFile(f"{place} is the same as budget {seen[same]}", "leave one of them out")
        seen[same] = number
