"""States of a verdict, and the rule that finds that of a training step on a GPU: one for all questions.

=========  ==============================================================================================
``fits``   with the margin to spare, whatever PyTorch's cache takes
``tight``  it fits, with less to spare, or as the allocator gives back what it would keep
``risky``  the peak might be too large by the error of published peaks, or fragments take too much
``no``     it is too large even so
=========  ==============================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tfcalc.search.gpus import MOST_RESERVED, runs_within
from tfcalc.training.measured import least_allocated, most_reserved, most_simulated

if TYPE_CHECKING:
    from tfcalc.search.gpus import Capacity, Simulated

FITS, TIGHT, RISKY, NO = "fits", "tight", "risky", "no"
FITTING = (FITS, TIGHT)
"""States of what fits."""
SAID = {FITS: "FITS", TIGHT: "FITS, TIGHTLY", RISKY: "MAY NOT FIT", NO: "DOES NOT FIT"}
"""States of a verdict, as people are told them."""
MARGIN = 5
"""Per cent of the budget; what leaves less is tight."""


class Room(NamedTuple):
    """Bytes that there are, and how many of them should stay free."""

    budget: int
    margin: int = 0

    def holds(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget."""
        return total <= self.budget

    def tight(self, total: int) -> bool:
        """Return whether ``total`` bytes are within the budget, but leave less than the margin."""
        return self.budget - self.margin < total <= self.budget

    def status(self, total: int) -> str:
        """Return the state of a verdict that rests on these bytes alone."""
        return NO if not self.holds(total) else TIGHT if self.tight(total) else FITS


class CardRule(NamedTuple):
    """Rule of the verdict on a training step on a GPU, or within an amount of memory that was stated."""

    budget: Capacity
    margin: int = MARGIN

    @property
    def room(self) -> Room:
        """Bytes that may be allocated; on a card all that PyTorch's cache might need besides should stay free."""
        usable, there = self.budget.allocatable, self.budget.bytes
        roomy_up_to = usable if usable == there else most_simulated(there)
        return Room(usable, max(usable * self.margin // 100, usable - roomy_up_to))

    def status(self, total: int, simulated: Simulated | None = None) -> str:
        """Return the state of a step whose peak has ``total`` bytes, and whose allocations may be ``simulated``.

        On a card a peak is given the error of published peaks, and has to run in PyTorch's allocator: tightly, if that
        has to give back what it would keep. It is risky where it does not run, or where the peak may be too large by
        that error; it does not fit where the peak is too large even so. Of what cannot be simulated the published
        bands decide.
        """
        room = self.room
        if room.budget == self.budget.bytes:
            return room.status(total)
        if least_allocated(total) > self.budget.bytes:
            return NO
        if not room.holds(total):
            return RISKY
        if self._roomy(total, simulated):
            return room.status(total)
        return TIGHT if runs_within(total, self.budget.bytes, simulated) else RISKY

    def _roomy(self, total: int, simulated: Simulated | None) -> bool:
        """Return whether PyTorch's cache would be within the card even if it were as large as published ones."""
        there = self.budget.bytes
        if most_reserved(total) > there:
            return False
        if simulated is None or most_reserved(int(MOST_RESERVED * total)) <= there:
            return True
        found = simulated(there)  # as without a limit, if none is given back
        return found is not None and not found.given_back and most_reserved(found.reserved) <= there
