"""The numbers that budgets are about: each question is asked once, however many limits there are for its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfcalc.budgets.metric import look_up
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.budgets.file import Scenario
    from tfcalc.budgets.limit_check import Value
    from tfcalc.budgets.metric import Metric
    from tfcalc.budgets.sources import Ask, Fields, Source

UNITS = "units"
"""The convention that changes how bytes are written, and no number."""


class JudgedNumber(NamedTuple):
    """A value, and the answer that it is from."""

    value: Value
    answer: Mapping[str, Any]

    @property
    def conventions(self) -> dict[str, object]:
        """The definitions that the value rests on."""
        return {name: said for name, said in self.answer.get("conventions", {}).items() if name != UNITS}

    @property
    def model(self) -> dict[str, object]:
        """The model's own fields."""
        return {name: value for name, value in self.answer.get("model", {}).items() if name != "name"}


class Numbers:
    """Answers by model, scenario and command; models that differ in their names alone are the same."""

    def __init__(self, ask: Ask, scenarios: Mapping[str, Scenario]) -> None:
        self.ask, self.scenarios = ask, scenarios
        self._answers: dict[str, Mapping[str, Any]] = {}

    def of(self, source: Source, metric: Metric, scenario: str | None, conventions: Fields) -> JudgedNumber:
        """The metric's number. Raises what the command raises, and UsageError where it has no such number."""
        answer = self._answer(source, metric.command, scenario, conventions)
        first = metric.keys[0]
        # Of an answer whose entries are found as they are read, one alone is read.
        found = look_up({first: answer[first]} if first in answer else answer, metric.keys)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise UsageError(f"{'.'.join(metric.keys)} is {quoted(found)}, which is no number", "name another metric")
        return JudgedNumber(found, answer)

    def _answer(self, source: Source, command: str, scenario: str | None, conventions: Fields) -> Mapping[str, Any]:
        entry = source.entry
        asked = (command, scenario, dict(conventions), source.fields, entry.preset, dict(entry.options))
        key = json.dumps(asked)
        if key not in self._answers:
            options = self.scenarios[scenario].options if scenario is not None else {}
            self._answers[key] = self.ask(command, source, options, conventions)
        return self._answers[key]
