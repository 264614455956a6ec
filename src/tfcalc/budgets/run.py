"""Run of all budgets: every limit is checked for every model that it names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.budgets.baseline import OldValue
from tfcalc.budgets.checks import FAILED, NEW, NOT_COMPARABLE, PASSED, WARNING, BudgetReport, CheckedLimit, FileLine
from tfcalc.budgets.config_diff import changed_field, line_of
from tfcalc.budgets.keys import ERROR
from tfcalc.budgets.limit_check import IEC, AmountFormat, describe, threshold, violated
from tfcalc.budgets.limits import FITS_GPU, RELATIVE, Limit
from tfcalc.budgets.metric import Metric, read
from tfcalc.budgets.patterns import NamePatterns
from tfcalc.budgets.sources import Source, here
from tfcalc.errors import BadFile, TfcalcError, Unavailable
from tfcalc.files import content
from tfcalc.named_tuple import NamedTuple
from tfcalc.reader import LARGEST

if TYPE_CHECKING:
    from tfcalc.budgets.baseline import Baseline
    from tfcalc.budgets.file import Budget, BudgetFile, ModelEntry
    from tfcalc.budgets.numbers import JudgedNumber, Numbers
    from tfcalc.budgets.sources import Fields

EXPIRES = "expires"


class BudgetCase(NamedTuple):
    """Budget of one model with its metric, the number of today, and that of the baseline."""

    budget: Budget
    source: Source
    metric: Metric
    now: JudgedNumber
    before: OldValue


class BudgetRun:
    """Run of the budgets of a file on the models of ``folder``, against a ``baseline``; ``pattern`` selects models.

    Bytes are said in ``units``, by default those of the file.
    """

    def __init__(
        self, file: BudgetFile, folder: Path, numbers: Numbers, baseline: Baseline, pattern: str = "*", units: str = ""
    ) -> None:
        self.units = units or str(file.conventions.get("units", IEC))
        self.file, self.folder, self.numbers, self.baseline = file, folder, numbers, baseline
        self.name = shown(Path(file.path))
        self.models = {name: file.models[name] for name in NamePatterns(file.models).of_any([pattern])}
        self._names = NamePatterns(self.models)
        self._sources: dict[str, Source] = {}
        self._found: dict[tuple[str, str, str | None], JudgedNumber] = {}

    def checked(self, today: date) -> BudgetReport:
        """Check every limit on this day."""
        checks = tuple(
            check
            for budget in self.file.budgets
            for source in self.of(budget)
            for check in self._held(budget, source, today)
        )
        return BudgetReport(self.name, checks, tuple(self.baseline.notes), self.units)

    def of(self, budget: Budget) -> Iterator[Source]:
        """Models of a budget."""
        for name in self._names.of_any(budget.models):
            yield self._source(self.models[name])

    def named(self, name: str) -> Source:
        """The model of this name."""
        return self._source(self.file.models[name])

    def _source(self, entry: ModelEntry) -> Source:
        """The model as it is in the working tree. Raises BadFile."""
        if entry.name not in self._sources:
            try:
                self._sources[entry.name] = here(entry, self.folder)
            except TfcalcError as error:
                raise BadFile(f"{self.name}: models.{entry.name}: {error.message}", error.hint) from None
        return self._sources[entry.name]

    def number(self, budget: Budget, source: Source) -> JudgedNumber:
        """Number of the model today. Raises BadFile, with the place of the budget, where it has none."""
        key = (source.entry.name, budget.metric, budget.scenario)
        if key not in self._found:
            self._found[key] = self._number(budget, source)
        return self._found[key]

    def _number(self, budget: Budget, source: Source) -> JudgedNumber:
        try:
            return self.numbers.of(source, read(budget.metric), budget.scenario, self.file.conventions)
        except Unavailable:
            raise
        except TfcalcError as error:
            scenario = f", scenario {budget.scenario}" if budget.scenario else ""
            place = f"{self.name}:{budget.line}: {budget.metric} of {source.entry.name}{scenario}"
            raise BadFile(f"{place}: {error.message}", error.hint) from None

    def _held(self, budget: Budget, source: Source, today: date) -> Iterator[CheckedLimit]:
        """Check each limit of a budget; a single failing check where it has expired."""
        metric = read(budget.metric)
        if budget.expires and today >= budget.expires:
            yield self._expired(budget, source, metric)
            return
        now = self.number(budget, source)
        asked = BudgetCase(budget, source, metric, now, self.baseline.of(source, metric, budget.scenario, now))
        for rule, limit in budget.limits.items():
            yield self._check(asked, rule, limit)

    def _expired(self, budget: Budget, source: Source, metric: Metric) -> CheckedLimit:
        assert budget.expires, "it is only asked of those that do"
        day = budget.expires.isoformat()
        said = f"{metric}: its budget expired on {day}; set a new date, or remove it"
        return CheckedLimit(
            source.entry.name,
            budget.scenario,
            str(metric),
            metric.unit,
            EXPIRES,
            Limit(day, 0, percent=False),
            None,
            None,
            "",
            _failing(budget),
            budget.why,
            _line(budget, source, said),
            self._line_of(budget),
        )

    def _check(self, asked: BudgetCase, rule: str, limit: Limit) -> CheckedLimit:
        budget, source, metric, now, before = asked
        told = AmountFormat(metric.unit, self.units)
        if rule in RELATIVE and before.value is None:
            status, said = before.status, f"{told.amount(now.value)}, {rule} {limit.text}: {before.reason}"
        elif rule == FITS_GPU:
            status = PASSED if now.answer["fits"] else _failing(budget)
            said = f"{now.answer['verdict']} ({rule})"
        else:
            allowed = threshold(rule, limit, before.value)
            warned = budget.warn is not None and violated(rule, now.value, threshold(rule, budget.warn, before.value))
            beyond = violated(rule, now.value, allowed)
            status = _failing(budget) if beyond else WARNING if warned else PASSED
            said = describe(rule, limit, told, now.value, before.value, allowed)
            if warned and not beyond and budget.warn:
                said += f", a warning from {budget.warn.text}"
        return CheckedLimit(
            source.entry.name,
            budget.scenario,
            str(metric),
            metric.unit,
            rule,
            limit,
            now.value,
            before.value,
            self.baseline.name if before.value is not None else "",
            status,
            budget.why,
            _line(budget, source, said if rule == FITS_GPU else f"{metric} {said}"),
            self._line_of(budget) if status in (PASSED, NEW, NOT_COMPARABLE) else self._place(asked),
        )

    def _place(self, asked: BudgetCase) -> FileLine:
        """Line of the field that moved the number, where one did; else that of the budget."""
        budget, source, metric, now, before = asked
        then = before.source
        if then is None or source.fields is None or then.fields is None or before.value is None:
            return self._line_of(budget)
        up, base, scenario = now.value > before.value, before.value, budget.scenario

        def moves(fields: Fields) -> bool:
            value = self.numbers.of(then._replace(fields=fields), metric, scenario, self.file.conventions).value
            return value != base and (value > base) == up

        field = changed_field(then.fields, source.fields, moves) if now.value != base else None
        if field is None:
            return self._line_of(budget)
        text = content(Path(source.path), LARGEST).decode("utf-8-sig")
        return FileLine(shown(Path(source.path)), line_of(text, field))

    def _line_of(self, budget: Budget) -> FileLine:
        return FileLine(self.name, budget.line)


def shown(path: Path) -> str:
    """A path as people read it: from the folder that the program runs in."""
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except (OSError, ValueError):  # that folder is gone, or on another drive
        return str(path)


def _failing(budget: Budget) -> str:
    return FAILED if budget.severity == ERROR else WARNING


def _line(budget: Budget, source: Source, said: str) -> str:
    """``chat, serving: memory.kv_cache_bytes … ; why: …``."""
    scenario = f", {budget.scenario}" if budget.scenario else ""
    return f"{source.entry.name}{scenario}: {said}" + (f"; why: {budget.why}" if budget.why else "")
