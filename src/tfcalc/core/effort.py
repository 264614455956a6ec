"""Limits on computation, counted in operations rather than seconds: any machine refuses the same questions.

A unit is one closed form computed on the way (about 20 µs); an operation of a running model is three units.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from tfcalc.errors import UsageError

OPERATION, FORM = 3, 1


class Spent(Exception):
    """The limit is reached."""


class Effort:
    """Units ``spent`` since the program began, and the total at which it stops (``most``)."""

    def __init__(self) -> None:
        self.spent = 0
        self.most = inf

    def spend(self, units: int = OPERATION) -> None:
        """Count these units. Raises Spent beyond the limit."""
        self.spent += units
        if self.spent > self.most:
            raise Spent


EFFORT = Effort()


@contextmanager
def at_most(units: float, fact: str, remedy: str) -> Iterator[None]:
    """Limit the units spent in the block. Raises UsageError, with the fact and the remedy, beyond them."""
    before = EFFORT.most
    EFFORT.most = min(before, EFFORT.spent + units)
    try:
        yield
    except Spent:
        if EFFORT.most == before:
            raise
        raise UsageError(fact, remedy) from None
    finally:
        EFFORT.most = before
