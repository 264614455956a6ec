"""Which changes make a step fit: each by itself, or two together, or more; or else what comes closest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from tfcalc.questions.changes import Change, Group

LISTED, TOGETHER = 6, 3
"""So many changes are listed at most, or so many sets of changes where no single one is enough."""
TRIED = 30
"""So many pairs are tried at most, and so many larger sets."""

Need = Callable[[Change], int | None]
"""The bytes with a change; None where it does not go with the rest."""


class Remedy(NamedTuple):
    """Changes made together, mostly one, and the bytes of the peak with them."""

    changes: tuple[Change, ...]
    total: int

    @property
    def change(self) -> Change:
        """All of them as one."""
        return _together(self.changes)


def remedies(groups: Sequence[Group], need: Need, budget: int) -> list[Remedy]:
    """The smallest single changes that fit; where none does, pairs; where no pair does, more; or what comes closest.

    Of a group (the same change by degrees) the smallest that fits stands for all, where the furthest fits. ``groups``
    are in order, the smallest first; of two pairs that with the smaller larger change is the smaller. "More" are all
    changes that make a step smaller, with one or two others, or else all changes; those that it fits without are left
    out. Where all changes together do not fit, no pair is tried.
    """
    search = _Search(need, budget)
    single = list(islice((found for group in groups for found in search.smallest(group)), LISTED))
    if single:
        return single
    last = [group[-1] for group in groups]
    furthest = search.furthest(last)
    if furthest is None or furthest.total > budget:
        return search.closest()
    pairs = list(islice(search.fitting(islice(search.pairs(last), TRIED)), TOGETHER))
    if pairs:
        return pairs
    more = next(search.fitting(islice(search.many(last), TRIED)), furthest)
    return [search.fewer(more)]


class _Search:
    def __init__(self, need: Need, budget: int) -> None:
        self.need, self.budget = need, budget
        self.tried: dict[frozenset[str], tuple[tuple[Change, ...], int | None]] = {}

    def total(self, changes: tuple[Change, ...]) -> int | None:
        """The bytes with all of them."""
        key = frozenset(change.name for change in changes)
        if key not in self.tried:
            self.tried[key] = changes, self.need(_together(changes))
        return self.tried[key][1]

    def fitting(self, sets: Iterable[tuple[Change, ...]]) -> Iterator[Remedy]:
        """Those that fit."""
        for changes in sets:
            total = self.total(changes)
            if total is not None and total <= self.budget:
                yield Remedy(changes, total)

    def smallest(self, group: Group) -> Iterator[Remedy]:
        """The smallest of a group that fits, if its furthest does."""
        if any(self.fitting([(group[-1],)])):
            yield from islice(self.fitting((each,) for each in group), 1)

    def pairs(self, changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
        """Two that go together, the smallest pair first.

        What does not fit even with all that makes a step smaller is not paired with one of that kind.
        """
        for one, other in _in_order(changes):
            if not any(
                first.transient and self._hopeless(second, changes) for first, second in ((one, other), (other, one))
            ):
                yield one, other

    def _hopeless(self, change: Change, changes: Sequence[Change]) -> bool:
        total = self.total(_with_all_transient((change,), changes))
        return total is not None and total > self.budget

    def furthest(self, changes: Sequence[Change]) -> Remedy | None:
        """All changes that go together and take something off, from the last on; None where no change goes at all."""
        found: Remedy | None = None
        for change in reversed(changes):
            several = (*(found.changes if found else ()), change)
            if all(change.goes_with(other) for other in several[:-1]):
                total = self.total(several)
                if total is not None and (found is None or total < found.total):
                    found = Remedy(several, total)
        return found

    def many(self, changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
        """All that make a step smaller, with one or two others."""
        others = [change for change in changes if not change.transient]
        for few in (*((one,) for one in others), *_in_order(others)):
            yield _with_all_transient(few, changes)

    def fewer(self, found: Remedy) -> Remedy:
        """The same without those that it fits without."""
        for change in reversed(found.changes):
            rest = tuple(each for each in found.changes if each is not change)
            found = next(self.fitting([rest] if rest else []), found)
        return found

    def closest(self) -> list[Remedy]:
        """What needs least of all that was tried."""
        known = [Remedy(changes, total) for changes, total in self.tried.values() if total is not None]
        return sorted(known, key=lambda remedy: (remedy.total, len(remedy.changes)))[:1]


def _together(changes: Sequence[Change]) -> Change:
    first, *others = changes
    return sum(others, start=first)


def _in_order(changes: Sequence[Change]) -> Iterator[tuple[Change, Change]]:
    """All pairs that go together, that with the smaller larger one first."""
    for i, j in sorted(combinations(range(len(changes)), 2), key=lambda pair: (pair[1], pair[0])):
        if changes[i].goes_with(changes[j]):
            yield changes[i], changes[j]


def _with_all_transient(few: tuple[Change, ...], changes: Sequence[Change]) -> tuple[Change, ...]:
    """These changes, and all that make a step smaller."""
    found = list(few)
    for other in changes:
        if other.transient and all(other.goes_with(each) for each in found):
            found.append(other)
    return tuple(found)
