"""Which changes make it fit: single ones, those that people combine, or else all that help; or what comes closest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tfcalc.analysis.changes import Change, Changes, Group, Ways

LISTED = 6
"""So many remedies are listed at most."""

Need = Callable[[Change], int | None]
"""The bytes with a change; None where it does not go with the rest."""


class Remedy(NamedTuple):
    """Changes made together, mostly one, and the bytes of the peak with them."""

    changes: Changes
    total: int

    @property
    def change(self) -> Change:
        """All of them as one."""
        return together(self.changes)


class Room(NamedTuple):
    """Bytes that there are, and how many of them should stay free."""

    budget: int
    margin: int = 0

    def holds(self, total: int) -> bool:
        """Whether so much is within the budget."""
        return total <= self.budget

    def tight(self, total: int) -> bool:
        """Whether it is, but leaves less than the margin."""
        return self.budget - self.margin < total <= self.budget


def remedies(ways: Ways, combined: Sequence[str], need: Need, room: Room, *least: Need) -> list[Remedy]:
    """Single changes that fit; where none does with the margin to spare, those ``combined`` by two, then by three.

    What gives less than was asked for is not enough either to leave out the latter.
    Of the same changes by degrees the least that fits with the margin stands for all. Those that fit tightly come last.
    Where nothing fits so, all changes together that help, without those that it fits without; or what comes closest.
    ``least`` are lower bounds of the need, that found soonest first.
    """
    search = _Search(need, least, room)
    found: list[Remedy] = []
    for tier in ways.tiers(*combined):
        for group in tier:
            found += search.first(group)
            roomy = [remedy for remedy in found if not room.tight(remedy.total)]
            if len(roomy) == LISTED:
                return roomy
        if any(not room.tight(remedy.total) and not remedy.change.lessens for remedy in found):
            break
    if found:
        return sorted(found, key=lambda remedy: room.tight(remedy.total))[:LISTED]
    furthest = search.furthest(ways.furthest)
    if furthest and room.holds(furthest.total):
        return [search.gentlest(search.fewer(furthest), ways)]
    return [furthest] if furthest else []


def together(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    first, *others = changes
    return sum(others, start=first)


class _Search:
    def __init__(self, need: Need, least: Sequence[Need], room: Room) -> None:
        self.need, self.least, self.room = need, least, room

    def first(self, group: Group) -> Iterator[Remedy]:
        """The first of a group that fits with the margin, or else tightly; none where the furthest does not fit."""
        if not any(self.fitting(group[-1:])):
            return
        fitting = list(self.until_roomy(group))
        yield fitting[-1] if not self.room.tight(fitting[-1].total) else fitting[0]

    def until_roomy(self, group: Iterable[Changes]) -> Iterator[Remedy]:
        """Those that fit, up to the first that leaves the margin."""
        for remedy in self.fitting(group):
            yield remedy
            if not self.room.tight(remedy.total):
                return

    def fitting(self, sets: Iterable[Changes]) -> Iterator[Remedy]:
        """Those that fit; the need is found only where no lower bound rules them out."""
        for changes in sets:
            total = self.within(together(changes))
            if total is not None:
                yield Remedy(changes, total)

    def within(self, change: Change) -> int | None:
        """The need, if it is within the budget."""
        total = None
        for need in (*self.least, self.need):
            total = need(change)
            if total is None or not self.room.holds(total):
                return None
        return total

    def furthest(self, changes: Sequence[Change]) -> Remedy | None:
        """All changes that go together and take something off, the last first; None where none goes at all."""
        found: Remedy | None = None
        for change in reversed(changes):
            several = (change, *(found.changes if found else ()))
            if all(change.goes_with(other) for other in several[1:]):
                total = self.need(together(several))
                if total is not None and (found is None or total < found.total):
                    found = Remedy(several, total)
        return found

    def fewer(self, found: Remedy) -> Remedy:
        """The same without those that it fits without."""
        for change in found.changes:
            rest = tuple(each for each in found.changes if each is not change)
            found = next(self.fitting([rest] if rest else []), found)
        return found

    def gentlest(self, found: Remedy, ways: Ways) -> Remedy:
        """The same with each change by the least degree that it fits with."""
        for place, change in enumerate(found.changes):
            before, after = found.changes[:place], found.changes[place + 1 :]
            degrees = next(degrees for degrees in ways.known.values() if change in degrees)
            found = next(self.fitting((*before, degree, *after) for degree in degrees), found)
        return found
