"""``tfcalc budget --update``: today's values are recorded, and one that rises needs a reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from tfcalc.budgets.limit_check import AmountFormat
from tfcalc.budgets.limits import MAX_DECREASE, MIN
from tfcalc.budgets.lock import Key, Lock, LockRecord, record
from tfcalc.budgets.metric import read
from tfcalc.errors import UsageError
from tfcalc.report import SCHEMA_VERSION

if TYPE_CHECKING:
    from tfcalc.budgets.file import Budget
    from tfcalc.budgets.opened import OfUpdated
    from tfcalc.budgets.run import BudgetRun
    from tfcalc.report.sheet import Sheet

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


class Updated(NamedTuple):
    """Answer of ``--update``: the recorded values, the file, and the changes."""

    path: str
    lock: Lock
    changes: tuple[RecordedChange, ...]

    def opener(self) -> OfUpdated:
        """Origins of its numbers."""
        from tfcalc.budgets.opened import OfUpdated

        return OfUpdated(self)

    def to_dict(self) -> dict[str, object]:
        """JSON object of the answer."""
        found = Counter(change.kind for change in self.changes)
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "budget",
            "baseline": self.path,
            "recorded_count": len(self.lock.records),
            **{f"{kind}_count": found[kind] for kind in CHANGES},
        }

    def sheet(self) -> Sheet:
        """One line."""
        from tfcalc.report.sheet import Sheet

        found = Counter(change.kind for change in self.changes)
        kinds = ", ".join(f"{found[kind]} {kind}" for kind in CHANGES if found[kind])
        count = len(self.lock.records)
        title = f"{self.path}: {count} value{'s' * (count != 1)} recorded" + (f" ({kinds})" if kinds else "")
        return Sheet(title=title, columns=[], rows=[], quiet=count)


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
