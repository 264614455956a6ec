"""``tfcalc budget --update``: today's values are recorded, and one that rises needs a reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tfcalc.budgets.checks import NEW_COUNT, BudgetAnswer
from tfcalc.budgets.limit_check import AmountFormat
from tfcalc.budgets.limits import MAX_DECREASE, MIN
from tfcalc.budgets.lock import Key, Lock, LockRecord, record
from tfcalc.budgets.metric import read
from tfcalc.errors import UsageError
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.declared import Key as AnswerKey
from tfcalc.report.declared import Told, integer, text
from tfcalc.report.opening import count
from tfcalc.report.sheet import Sheet

if TYPE_CHECKING:
    from tfcalc.budgets.file import Budget
    from tfcalc.budgets.run import BudgetRun

NEW, RAISED, LOWERED, REMOVED, UNCHANGED = CHANGES = ("new", "raised", "lowered", "removed", "unchanged")


class RecordedChange(NamedTuple):
    """Change of a recorded value."""

    key: Key
    unit: str
    before: int | float | None
    after: int | float | None

    @property
    def kind(self) -> str:
        """One of CHANGES."""
        if self.before is None or self.after is None:
            return NEW if self.before is None else REMOVED
        return RAISED if self.after > self.before else LOWERED if self.after < self.before else UNCHANGED

    def told(self, units: str) -> str:
        """``chat, serving: memory.kv_cache_bytes 4.00 GiB -> 8.00 GiB (+100.0 %)``."""
        model, scenario, metric = self.key
        assert self.before is not None, "it is told of what rises or falls"
        assert self.after is not None, "and not of what is gone"
        name = f"{model}, {scenario}" if scenario else model
        return f"{name}: {metric} {AmountFormat(self.unit, units).change(self.before, self.after)}"


def _number_of(kind: str, meaning: str) -> AnswerKey[int]:
    """Number of recorded values that have changed in this way."""
    return integer(
        meaning,
        lambda answer: sum(change.kind == kind for change in answer.changes),
        Told(lambda answer: count(f"the values that are {kind} in {answer.baseline}")),
    )


class Updated(BudgetAnswer):
    """Answer of ``--update``: the recorded values, the file, and the changes."""

    form = "--update"

    baseline = text("the file of recorded values", lambda answer: answer.heading)
    recorded_count = integer(
        "values recorded",
        lambda answer: len(answer.lock.records),
        Told(lambda answer: count(f"the values that are recorded in {answer.baseline}")),
    )
    new_count = _number_of(NEW, NEW_COUNT)
    raised_count = _number_of(RAISED, "values that are higher than before")
    lowered_count = _number_of(LOWERED, "values that are lower")
    removed_count = _number_of(REMOVED, "values that are no longer recorded")
    unchanged_count = _number_of(UNCHANGED, "values that are as before")

    def __init__(self, path: str, lock: Lock, changes: tuple[RecordedChange, ...]) -> None:
        self.path, self.lock, self.changes = path, lock, changes

    @property
    def heading(self) -> str:
        """The file of recorded values."""
        return self.path

    def sheet(self) -> Sheet:
        """One line."""
        found = Counter(change.kind for change in self.changes)
        kinds = ", ".join(f"{found[kind]} {kind}" for kind in CHANGES if found[kind])
        recorded = self.recorded_count
        title = f"{self.path}: {recorded} value{'s' * (recorded != 1)} recorded" + (f" ({kinds})" if kinds else "")
        return Sheet(title=title, columns=[], rows=[], quiet=recorded)


def updated(run: BudgetRun, before: Lock | None, path: str, version: str, reason: str) -> Updated:
    """Record the values of today, and list what they change.

    A value that rises wants a ``reason``, and so does one that falls where a budget limits that. Raises UsageError with
    what does, if there is none.
    """
    then = before.records if before else {}
    records: dict[Key, LockRecord] = {}
    changes, unexplained = [], []
    for budget in run.file.budgets:
        for source in run.of(budget):
            metric = read(budget.metric)
            key = (source.entry.name, budget.scenario or "", str(metric))
            old = then.get(key)
            options = run.file.scenarios[budget.scenario].options if budget.scenario else {}
            change = RecordedChange(key, metric.unit, old and old.value, run.number(budget, source).value)
            worse = change.kind == RAISED or (change.kind == LOWERED and _guarded(budget))
            if worse and change not in unexplained:
                unexplained.append(change)
            if key not in records:
                changes.append(change)
                said = old.reason if old else ""
                records[key] = record(key, run.number(budget, source), options, said)
            if worse:
                records[key] = records[key]._replace(reason=reason)
    if unexplained and not reason:
        listed = ", ".join(change.told(run.units) for change in unexplained)
        raise UsageError(f"{path} would be raised: {listed}", "say why: --reason TEXT")
    changes += [RecordedChange(key, "", old.value, None) for key, old in then.items() if key not in records]
    asked = {budget.scenario for budget in run.file.budgets if budget.scenario}
    scenarios = {name: scenario.options for name, scenario in run.file.scenarios.items() if name in asked}
    return Updated(path, Lock(version, run.file.conventions, scenarios, records), tuple(changes))


def _guarded(budget: Budget) -> bool:
    """Return whether a budget has a lower limit."""
    return MIN in budget.limits or MAX_DECREASE in budget.limits
