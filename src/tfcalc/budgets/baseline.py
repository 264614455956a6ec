"""Baselines of relative limits: a git revision, a file of recorded values, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tfcalc.budgets.checks import NEW, NOT_COMPARABLE
from tfcalc.budgets.lock import record
from tfcalc.budgets.numbers import UNITS
from tfcalc.errors import TfcalcError, Unavailable
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.budgets.file import BudgetFile, ModelEntry
    from tfcalc.budgets.limit_check import Value
    from tfcalc.budgets.lock import Lock
    from tfcalc.budgets.metric import Metric
    from tfcalc.budgets.numbers import JudgedNumber, Numbers
    from tfcalc.budgets.sources import Fields, Revision, Source


NO_BASELINE = "there is nothing to compare with; add --base REF, or record it: tfcalc budget --update"


class OldValue(NamedTuple):
    """Value of a number in the baseline; without one, ``status`` and ``reason`` say why there is none.

    ``source`` is the model of then, where it is known.
    """

    value: Value | None
    status: str = ""
    reason: str = ""
    source: Source | None = None


class Baseline(Protocol):
    """Earlier state that numbers are compared with. ``name`` is for people; ``notes`` are complete after all checks."""

    name: str

    @property
    def notes(self) -> list[str]:
        """Notes on models, printed beside the checks."""
        ...

    def of(self, source: Source, metric: Metric, scenario: str | None, now: JudgedNumber, /) -> OldValue:
        """Value of the model's ``metric`` in the baseline; ``now`` is its value today."""
        ...


class NoBaseline:
    """Missing baseline: every relative limit is not comparable, for this ``reason``."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        self.notes: list[str] = []

    def of(self, *_: object) -> OldValue:
        """Return no value, and why."""
        return OldValue(None, NOT_COMPARABLE, self.reason)


class GitBaseline:
    """Models as they were at a git revision, with today's scenarios and metrics."""

    def __init__(self, revision: Revision, numbers: Numbers, file: BudgetFile) -> None:
        self.revision, self.numbers, self.today = revision, numbers, file
        self.name = revision.ref
        self._sources: dict[str, Source | OldValue] = {}

    @property
    def notes(self) -> list[str]:
        """New, renamed and deleted models, whether they have a budget or not."""
        for entry in self.today.models.values():
            self._source(entry)
        new = (name for name, found in self._sources.items() if isinstance(found, OldValue) and found.status == NEW)
        return [*(f"{name} is new since {self.name}" for name in new), *self.revision.notes]

    def of(self, source: Source, metric: Metric, scenario: str | None, now: JudgedNumber) -> OldValue:
        """Value with the model and the conventions of the revision."""
        found = self._source(source.entry)
        if isinstance(found, OldValue):
            return found
        pinned = self.revision.conventions
        try:
            then = self.numbers.of(found, metric, scenario, pinned)
            redefined = dict(moved(pinned, self.today.conventions))
            if redefined and then.value != now.value:
                # A changed convention must not look like growth: count the old model by today's conventions as well.
                again = self.numbers.of(found, metric, scenario, self.today.conventions)
                if again.value != then.value:
                    return OldValue(
                        None, NOT_COMPARABLE, f"[conventions] changed since {self.name}: {told(redefined)}", found
                    )
        except Unavailable:
            raise
        except TfcalcError as error:
            return OldValue(None, NOT_COMPARABLE, f"at {self.name}: {error.message}", found)
        return OldValue(then.value, source=found)

    def _source(self, entry: ModelEntry) -> Source | OldValue:
        if entry.name not in self._sources:
            self._sources[entry.name] = self._found(entry)
        return self._sources[entry.name]

    def _found(self, entry: ModelEntry) -> Source | OldValue:
        try:
            found = self.revision.source(entry)
        except Unavailable:
            raise
        except TfcalcError as error:
            return OldValue(None, NOT_COMPARABLE, error.message)
        return found or OldValue(None, NEW, f"it is new since {self.name}")


class LockBaseline:
    """Values of tfcalc.lock.json. Equal values always pass; others are comparable if no convention has changed."""

    def __init__(self, lock: Lock, name: str, file: BudgetFile, version: str) -> None:
        self.lock, self.name, self.today, self.version = lock, name, file, version
        self.notes: list[str] = []

    def of(self, source: Source, metric: Metric, scenario: str | None, now: JudgedNumber) -> OldValue:
        """Recorded value."""
        key = (source.entry.name, scenario or "", str(metric))
        then = self.lock.records.get(key)
        if then is None:
            return OldValue(None, NOT_COMPARABLE, f"{self.name} has no value of it; record it: tfcalc budget --update")
        if then.value == now.value:
            return OldValue(then.value)
        if self.lock.version != self.version:
            fact = f"tfcalc {self.version} may count this differently than {self.lock.version}, which recorded it"
            return OldValue(None, NOT_COMPARABLE, f"{fact}; run tfcalc budget --update --reason TEXT")
        options = self.today.scenarios[scenario].options if scenario else {}
        other = record(key, now, options)
        redefined = self._redefined(scenario, options)
        if other.definitions != then.definitions and (redefined or other.fields == then.fields):
            what = told(redefined) if redefined else "the conventions of the answer"
            fact = f"definitions changed since it was recorded: {what}"
            return OldValue(None, NOT_COMPARABLE, f"{fact}; run tfcalc budget --update --reason TEXT")
        return OldValue(then.value)

    def _redefined(self, scenario: str | None, options: Fields) -> dict[str, tuple[object, object]]:
        """Conventions and options of the scenario that have changed since the value was recorded."""
        asked = self.lock.scenarios.get(scenario, {}) if scenario else {}
        return {**dict(moved(self.lock.conventions, self.today.conventions)), **dict(moved(asked, options))}


def moved(before: Fields, now: Fields) -> Iterator[tuple[str, tuple[object, object]]]:
    """Names whose values have changed, with both values; None for one that is missing."""
    for name in [*now, *(name for name in before if name not in now)]:
        if name != UNITS and before.get(name) != now.get(name):
            yield name, (before.get(name), now.get(name))


def told(redefined: Mapping[str, tuple[object, object]]) -> str:
    """``count was 'matmul' and is 'all'``."""
    words = {None: "not set"}
    return ", ".join(
        f"{name} was {words.get(old) or quoted(old)} and is {words.get(new) or quoted(new)}"  # type: ignore[call-overload]  # None alone is a key
        for name, (old, new) in redefined.items()
    )
