"""Limits of a served model (``--slo``): how many requests are within them, what decides it, what would serve more."""

from __future__ import annotations

from functools import cached_property

from tfcalc.answers.serve_case import ServeCase, ServedAt
from tfcalc.answers.serve_question import ServeChange, changes
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple

TTFT, TPOT, CAPACITY = "ttft", "tpot", "capacity"
CANNOT, SHOULD_NOT = "cannot", "should not"
"""Verdicts that deny: by a proof, and by what is assumed or estimated."""
UNKNOWN = "unknown"
"""Verdict where nothing is estimated."""


class Promise:
    """Limits that the served model is to keep, by the estimate; by the floor where nothing is estimated."""

    def __init__(self, case: ServeCase) -> None:
        self.case, self.limits = case, case.question.limits

    def _late(self, at: ServedAt) -> str:
        """Name what is too late at this number of requests; nothing where all is in time."""
        if self.limits.ttft is not None and self._first(at) > self.limits.ttft:
            return TTFT
        return TPOT if self.limits.tpot is not None and self._token(at) > self.limits.tpot else ""

    def _first(self, at: ServedAt) -> float:
        return float(at.floor_of_first.seconds if self.case.by is None else at.first.value)

    def _token(self, at: ServedAt) -> float:
        return float(at.floor_of_token.seconds if self.case.by is None else at.token.value)

    @property
    def met(self) -> bool | None:
        """Return whether the estimate is within the limits; None where nothing is estimated, and the floor is."""
        if not self.case.holds or self._late(self.case.at):
            return False
        return None if self.case.by is None else True

    @cached_property
    def largest(self) -> int:
        """The most requests that are within the limits."""
        if not self.case.holds:
            return 0
        low, high = 0, max(1, self.case.capacity)
        if not self._late(self.case.point(high)):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._late(self.case.point(middle)) else (middle, high)
        return low

    @cached_property
    def more(self) -> tuple[ServesMore, ...]:
        """The changes that serve more, each tried; none where nothing is estimated."""
        if self.case.by is None:
            return ()
        found: list[ServesMore] = []
        for each in map(kept, changes(self.case.question)):
            if each is None or each.concurrency <= self.largest:
                continue
            less = (one for one in found if each.options.endswith(f" {one.options}"))
            if all(each.concurrency > one.concurrency for one in less):  # else a part of the change is enough
                found.append(each)
        return tuple(found)

    @property
    def decided_by(self) -> str:
        """Name what does not allow more."""
        if not self.case.holds:
            return CAPACITY
        return self._late(self.case.point(self.largest + 1)) if self.largest < self.case.capacity else CAPACITY

    @property
    def verdict(self) -> str:
        """Return how sure it is at the requests asked for."""
        at = self.case.at
        if not self.case.holds:
            return SHOULD_NOT if self.case.of.holds else CANNOT
        if self.case.by is None:
            return CANNOT if self.met is False else UNKNOWN
        pairs = [
            (limit, guess, floor.seconds)
            for limit, guess, floor in (
                (self.limits.ttft, at.first, at.floor_of_first),
                (self.limits.tpot, at.token, at.floor_of_token),
            )
            if limit is not None
        ]
        if any(floor > limit for limit, _, floor in pairs):
            return CANNOT
        if all(guess.high <= limit for limit, guess, _ in pairs):
            return "should"
        return SHOULD_NOT if any(guess.low > limit for limit, guess, _ in pairs) else "may"


class ServesMore(NamedTuple):
    """A change that serves more, and the largest number of requests that it keeps the limits for."""

    options: str
    at: ServedAt

    @property
    def concurrency(self) -> int:
        """Requests within the limits, at most."""
        return self.at.concurrency


def kept(change: ServeChange) -> ServesMore | None:
    """Return how many requests a changed question keeps its limits for; None where it cannot be, or nobody knows."""
    try:
        case = ServeCase(change.question)
        largest = Promise(case).largest if case.by is not None else 0
    except TfcalcError:  # a format that the model does not have, GPUs that do not share it
        return None
    return ServesMore(change.options, case.point(largest)) if largest else None


def succeeds(case: ServeCase) -> bool:
    """Return whether it fits, serves all that come, and keeps the limits."""
    if not case.holds or not case.keeps_up:
        return False
    return not case.question.limits.given or bool(Promise(case).met)
