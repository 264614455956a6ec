"""What is live after every event of a run, at other sizes: tensors have closed forms, and are added up as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, compress
from typing import cast

from tfcalc.core.guarded import Guarded, int_of
from tfcalc.core.number import Num
from tfcalc.core.traced import Traced, formula_of
from tfcalc.tape.allocations import STEP
from tfcalc.tape.memory_tracker import MemoryTracker, Storage


class Moments:
    """The amounts that were added and taken away one after another, and at which moments the most was looked for.

    A run makes thousands of tensors of some dozen sizes, so that the sizes alone have to be computed anew.
    """

    def __init__(self) -> None:
        self.amounts: list[Num] = []
        self.changes: list[int] = []
        """Twice the place of an amount that is added; one more where it is taken away."""
        self.looked: list[bool] = []
        self._places: dict[object, int] = {}

    def place(self, amount: Num) -> int:
        """Where an amount stands. A number that remembers is told by its identity, as there is one of each."""
        key: object = (id(amount),) if type(amount) is Guarded else amount
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = len(self.amounts)
            self.amounts.append(amount)
        return found

    def rises(self, place: int) -> None:
        """So much more is live, which may be the most."""
        self.changes.append(place + place)
        self.looked.append(True)

    def falls(self, place: int) -> None:
        """So much less."""
        self.changes.append(place + place + 1)
        self.looked.append(False)

    def grows(self, before: int, after: int) -> None:
        """What was so much is more, where nobody looks."""
        self.changes += (2 * before + 1, 2 * after)
        self.looked += (False, False)

    def most(self, sizes: Mapping[str, int]) -> int:
        """The most that is live at one of the moments, where letters stand for these sizes.

        >>> moments = Moments()
        >>> for change in (moments.rises, moments.falls):
        ...     change(moments.place(5))
        >>> moments.most({})
        5
        """
        values: list[int] = []
        for amount in self.amounts:
            value = amount if isinstance(amount, int) else formula_of(amount).at(sizes)
            values += (value, -value)
        live = accumulate(map(values.__getitem__, self.changes))
        return max(compress(live, self.looked), default=0)


class SizedTracker(MemoryTracker):
    """Counts numbers, as every tracker does, and notes what these are at other sizes."""

    __slots__ = ("live_as", "moments", "noted")

    def __init__(self) -> None:
        super().__init__()
        self.moments = self.noted = Moments()
        """What is noted, until the optimizer's step begins."""
        self.live_as: dict[int, int] = {}
        """Of storages that are live, by their identity: the places of their amounts."""

    def begin(self, phase: str) -> None:
        """A phase begins."""
        super().begin(phase)
        if phase == STEP:
            self.moments = Moments()
        self.moments.rises(self.moments.place(0))

    def made(self, storage: Storage) -> None:
        """So many bytes more."""
        size = storage.bytes
        self.live_as[id(storage)] = place = self.moments.place(size)
        self.moments.rises(place)
        if type(size) is not int:
            storage.bytes = int_of(size)
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """So many bytes less; its own are again what they remember, for it may be made again as several."""
        super().gone(storage)
        place = self.live_as.pop(id(storage))
        if self.moments is self.noted:
            self.moments.falls(place)
            storage.bytes = cast("int", self.moments.amounts[place])

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        place = self.moments.place(size)
        self.moments.rises(place)
        self.moments.falls(place)
        super().needed(int_of(cast("Traced", size)))

    def lent(self, size: Num) -> None:
        """So many bytes more are for other devices' sake, or less."""
        super().lent(int_of(cast("Traced", size)))

    def multiplied(self, storage: Storage, times: int) -> None:
        """It is there so many times, as other layers have made some, too, that did not run."""
        before = self.live_as[id(storage)]
        after = self.live_as[id(storage)] = self.moments.place(self.moments.amounts[before] * times)
        self.moments.grows(before, after)
        super().multiplied(storage, int_of(times))
