"""The other side of a limit on growth: a git revision, a file of recorded values, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tfcalc.budgets.checks import NEW, NOT_COMPARABLE
from tfcalc.budgets.lock import record
from tfcalc.budgets.numbers import UNITS
from tfcalc.errors import TfcalcError, Unavailable
from tfcalc.printable import quoted

if TYPE_CHECKING:
    from tfcalc.budgets.file import BudgetFile, ModelEntry
    from tfcalc.budgets.hold import Value
    from tfcalc.budgets.lock import Lock
    from tfcalc.budgets.metric import Metric
    from tfcalc.budgets.numbers import Number, Numbers
    from tfcalc.budgets.sources import Fields, Revision, Source


NOTHING = "there is nothing to compare with; add --base REF, or record it: tfcalc budget --update"


class Before(NamedTuple):
    """The number as it was; without one, ``status`` and ``reason`` say why there is none.

    ``source`` is the model of then, where it is known.
    """

    value: Value | None
    status: str = ""
    reason: str = ""
    source: Source | None = None


class Other(Protocol):
    """What numbers are compared with. ``name`` is how people call it; ``notes`` are on models, once all were asked."""

    name: str

    @property
    def notes(self) -> list[str]:
        """What is told of models beside the checks."""
        ...

    def of(self, source: Source, metric: Metric, scenario: str | None, now: Number, /) -> Before:
        """What the ``metric`` of the model was, which is ``now`` another number or the same."""
        ...


class Nothing:
    """No other side, for this ``reason``."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        self.notes: list[str] = []

    def of(self, *_: object) -> Before:
        """Nothing, and why."""
        return Before(None, NOT_COMPARABLE, self.reason)


class AtRevision:
    """The models as they were at a git revision, asked by today's scenarios and metrics."""

    def __init__(self, revision: Revision, numbers: Numbers, file: BudgetFile) -> None:
        self.revision, self.numbers, self.today = revision, numbers, file
        self.name = revision.ref
        self._sources: dict[str, Source | Before] = {}

    @property
    def notes(self) -> list[str]:
        """New, renamed and deleted models, whether a budget was held for them or not."""
        for entry in self.today.models.values():
            self._source(entry)
        new = (name for name, found in self._sources.items() if isinstance(found, Before) and found.status == NEW)
        return [*(f"{name} is new since {self.name}" for name in new), *self.revision.notes]

    def of(self, source: Source, metric: Metric, scenario: str | None, now: Number) -> Before:
        """As the model and its conventions were then."""
        found = self._source(source.entry)
        if isinstance(found, Before):
            return found
        pinned = self.revision.conventions
        try:
            then = self.numbers.of(found, metric, scenario, pinned)
            redefined = dict(moved(pinned, self.today.conventions))
            if redefined and then.value != now.value:
                # A definition alone never looks like growth: what would the model of then be today?
                again = self.numbers.of(found, metric, scenario, self.today.conventions)
                if again.value != then.value:
                    return Before(
                        None, NOT_COMPARABLE, f"[conventions] changed since {self.name}: {told(redefined)}", found
                    )
        except Unavailable:
            raise
        except TfcalcError as error:
            return Before(None, NOT_COMPARABLE, f"at {self.name}: {error.message}", found)
        return Before(then.value, source=found)

    def _source(self, entry: ModelEntry) -> Source | Before:
        if entry.name not in self._sources:
            self._sources[entry.name] = self._found(entry)
        return self._sources[entry.name]

    def _found(self, entry: ModelEntry) -> Source | Before:
        try:
            found = self.revision.source(entry)
        except Unavailable:
            raise
        except TfcalcError as error:
            return Before(None, NOT_COMPARABLE, error.message)
        return found or Before(None, NEW, f"it is new since {self.name}")


class Recorded:
    """The values of tfcalc.lock.json. Equal values are always fine; others are comparable if nothing was redefined."""

    def __init__(self, lock: Lock, name: str, file: BudgetFile, version: str) -> None:
        self.lock, self.name, self.today, self.version = lock, name, file, version
        self.notes: list[str] = []

    def of(self, source: Source, metric: Metric, scenario: str | None, now: Number) -> Before:
        """As it was recorded."""
        key = (source.entry.name, scenario or "", str(metric))
        then = self.lock.records.get(key)
        if then is None:
            return Before(None, NOT_COMPARABLE, f"{self.name} has no value of it; record it: tfcalc budget --update")
        if then.value == now.value:
            return Before(then.value)
        if self.lock.version != self.version:
            fact = f"tfcalc {self.version} may count this differently than {self.lock.version}, which recorded it"
            return Before(None, NOT_COMPARABLE, f"{fact}; run tfcalc budget --update --reason TEXT")
        options = self.today.scenarios[scenario].options if scenario else {}
        other = record(key, now, options)
        redefined = self._redefined(scenario, options)
        if other.definitions != then.definitions and (redefined or other.fields == then.fields):
            what = told(redefined) if redefined else "the conventions of the answer"
            fact = f"definitions changed since it was recorded: {what}"
            return Before(None, NOT_COMPARABLE, f"{fact}; run tfcalc budget --update --reason TEXT")
        return Before(then.value)

    def _redefined(self, scenario: str | None, options: Fields) -> dict[str, tuple[object, object]]:
        """What is pinned or asked otherwise than when it was recorded."""
        asked = self.lock.scenarios.get(scenario, {}) if scenario else {}
        return {**dict(moved(self.lock.conventions, self.today.conventions)), **dict(moved(asked, options))}


def moved(before: Fields, now: Fields) -> Iterator[tuple[str, tuple[object, object]]]:
    """The names whose values are not as they were, with both values; None for one that was not there."""
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
