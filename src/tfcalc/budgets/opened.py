"""Where the numbers of a check come from: the answer that its metric is a number of, and the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tfcalc.budgets.metric import read
from tfcalc.report.opening import Opener, Way, count, found, given

if TYPE_CHECKING:
    from tfcalc.budgets.checks import BudgetReport, LimitCheck
    from tfcalc.budgets.update import Updated
    from tfcalc.report.derivation import Derivation
    from tfcalc.report.explanation import Explanation
    from tfcalc.report.opening import Openable
    from tfcalc.report.paths import Step

Ask = Callable[["LimitCheck", "tuple[str, ...]"], "Openable"]
"""A check, and the keys that are opened, to the answer that has its number."""


class OfChecked(Opener):
    """Values are answers of the commands that budgets ask; limits stand in the file."""

    def __init__(self, answer: BudgetReport) -> None:
        self.answer = answer
        self.heading = answer.file

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a check, or of how many there are."""
        match steps:
            case ("exit_code",):
                return found("1 where any check failed, else 3 where any is not comparable, else 0")
            case (str(key),) if key.endswith("_count"):
                return count(f"the checks whose status is {key.removesuffix('_count').replace('_', ' ')}")
            case ("checks", int(place), str(key)):
                return self._of(self.answer.checks[place], key)
        return None

    def _of(self, check: LimitCheck, key: str) -> Way | None:
        match key:
            case "limit_value":
                return given(f"{check.rule} = {check.limit.text} of a [[budget]] in {self.answer.file}")
            case "line":
                return given(f"the line of {check.place.path} that the check is about")
            case "base":
                return given(f"{check.metric} of {check.model} in {check.base_name}, as it was asked or recorded there")
            case "value" if self.answer.ask is not None:
                return Value(check, self.answer.ask)
        return None


class Value:
    """The number of a metric, as the command that has it opens it."""

    def __init__(self, check: LimitCheck, ask: Ask) -> None:
        self.check, self.ask = check, ask

    def opened(self, prefix: str, further: tuple[str, ...]) -> Explanation | Derivation:
        """It, or a number behind it. Raises UsageError where there is none."""
        from tfcalc.report.derivation import Derivation
        from tfcalc.report.opened import Opened

        keys = further or read(self.check.metric).keys
        opened, path = Opened(self.ask(self.check, keys), prefix=prefix).open(keys), ".".join((prefix, *further))
        said = f"{self.check.metric} of {self.check.model}"
        if isinstance(opened, Derivation):
            return replace(opened, path=path, note="; ".join(filter(None, (opened.note, said))))
        return replace(opened, target=path, notes=(said, *opened.notes))


class OfUpdated(Opener):
    """How many values were recorded."""

    def __init__(self, answer: Updated) -> None:
        self.heading = answer.path

    def way(self, steps: tuple[Step, ...]) -> Way | None:
        """Of a count."""
        match steps:
            case (str(key),) if key.endswith("_count"):
                return count(f"the values that are {key.removesuffix('_count')} in {self.heading}")
        return None
