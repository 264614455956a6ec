"""The allocations of layers that did not run, from those of the layer that stood for them.

Each turn of a row allocates the same, and frees what is its own or what its neighbours have left to it. A tensor is
told by its turn, and by its number among those that its turn has made; so that the turns that did not run free what
stands in the same place to them. What is freed outside of the row's turns is freed of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tfcalc.tape.allocations import Allocation, Span

NEW = tuple.__new__
"""As a NamedTuple makes one of itself, without the words of its fields."""
NOTHING: list[int] = []
FREED = -1
"""In the place of a tensor that is there no more."""


class Own(NamedTuple):
    """A tensor that a turn has made: of which row, in which turn, in which pass, and the how manyth it is."""

    row: int
    turn: int
    backward: bool
    number: int


_Pass = tuple[int, bool]
"""Which turn of a row, and whether backward runs it."""
Turned = tuple[Allocation, int, int]
"""An event of a turn: which of the passes it knows made the tensor, as the how manyth; -1 where none did."""


class Differ(Exception):
    """A turn is not like its neighbours, so that one of them does not tell what others do."""


def repeated(events: Sequence[Allocation], spans: Sequence[Span]) -> Sequence[Allocation] | None:
    """The same events with those of all turns that did not run; None where they cannot be told."""
    if all(span.turn.times == 1 for span in spans):
        return events
    spans = sorted(spans, key=lambda span: span.first)
    if any(before.end > after.first for before, after in pairwise(spans)):
        return None  # a row within a row
    try:
        return _Repeated(events, spans).events
    except Differ:
        return None


class _Repeated:
    def __init__(self, events: Sequence[Allocation], spans: Sequence[Span]) -> None:
        self.given, self.spans = events, spans
        self.standing: dict[int, tuple[int, int]] = {}
        """Of each row the turn that stands for others, and for how many."""
        self.owners: dict[int, Own] = {}
        self.events: list[Allocation] = []
        self.made: dict[tuple[int, int, bool], list[int]] = {}
        """What a turn of all that there are has made: the numbers of its tensors, or that they are freed."""
        self.outside: dict[int, int] = {}
        """The same of what is made outside of turns, and is there."""
        self._look()
        self._run()

    def _look(self) -> None:
        """Which tensor is whose. Raises Differ where the turn that stands for others is not as those beside it."""
        made: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
        for (row, turn, times, backward), first, end in self.spans:
            sizes = made.setdefault((row, turn, backward), [])
            for tensor, size, stream in self.given[first:end]:
                if size:
                    self.owners[tensor] = NEW(Own, (row, turn, backward, len(sizes)))
                    sizes.append((size, stream))
            if times != 1:
                self.standing[row] = turn, times
        for row, (turn, _) in self.standing.items():
            for backward in (False, True):
                own, *beside = (made.get((row, each, backward), []) for each in (turn, turn - 1, turn + 1))
                if any(each != own for each in beside):
                    raise Differ

    def _run(self) -> None:
        place = 0
        for (row, turn, times, backward), first, end in self.spans:
            self._outside(self.given[place:first])
            told = self._told(self.given[first:end], row)
            for further in reversed(range(times)) if backward else range(times):
                self._inside(told, row, self._place(row, turn) - turn + further)
            place = end
        self._outside(self.given[place:])
        self._check()

    def _check(self) -> None:
        """Raise Differ where not as many are left of each tensor as there should be."""
        freed = {tensor for tensor, size, _ in self.given if not size}
        left = [tensor for tensor, size, _ in self.given if size and tensor not in freed]
        expected = sum(len(self._turns(self.owners[tensor])) if tensor in self.owners else 1 for tensor in left)
        found = len(self.outside) + sum(len(each) - each.count(FREED) for each in self.made.values())
        if found != expected:
            raise Differ

    def _place(self, row: int, turn: int) -> int:
        """Which turn it is of all that there are; of those that it stands for the first."""
        standing, times = self.standing.get(row, (turn, 1))
        return turn + times - 1 if turn > standing else turn

    def _turns(self, own: Own) -> range:
        """The turns of all that there are that have made such a tensor."""
        standing, times = self.standing.get(own.row, (own.turn, 1))
        first = self._place(own.row, own.turn)
        return range(first, first + (times if own.turn == standing else 1))

    def _outside(self, events: Sequence[Allocation]) -> None:
        """What runs in no turn, or is of another row."""
        for tensor, size, stream in events:
            if size:
                self.outside[tensor] = len(self.events)
                self.events.append((len(self.events), size, stream))
            elif (own := self.owners.get(tensor)) is None:
                self.events.append((self.outside.pop(tensor), 0, 0))
            else:
                for turn in self._turns(own):
                    self._free((own.row, turn, own.backward), own.number)

    def _told(self, events: Sequence[Allocation], row: int) -> tuple[list[Turned], list[_Pass]]:
        """A turn's events, each with whose tensor it is, by the number of the pass; and the passes of its row."""
        passes: dict[tuple[int, bool], int] = {}
        told: list[Turned] = []
        for event in events:
            own = self.owners.get(event[0])
            if own is None or own.row != row:
                told.append((event, -1, 0))
            else:
                told.append((event, passes.setdefault((own.turn, own.backward), len(passes)), own.number))
        return told, list(passes)

    def _inside(self, ran: tuple[list[Turned], list[_Pass]], row: int, further: int) -> None:
        """A turn, so many turns further up its row than it ran."""
        told, passes = ran
        made = [self.made.setdefault((row, turn + further, backward), []) for turn, backward in passes]
        found = self.events  # a hundred thousand events pass here
        for event, its, number in told:
            if its < 0:
                self._outside([event])
                continue
            numbers, (_, size, stream) = made[its], event
            if size:
                numbers.append(len(found))
                found.append((len(found), size, stream))
            else:
                if number >= len(numbers) or numbers[number] == FREED:
                    raise Differ
                found.append((numbers[number], 0, 0))
                numbers[number] = FREED

    def _free(self, key: tuple[int, int, bool], number: int) -> None:
        numbers = self.made.get(key, NOTHING)
        if number >= len(numbers) or numbers[number] == FREED:
            raise Differ
        self.events.append((numbers[number], 0, 0))
        numbers[number] = FREED
