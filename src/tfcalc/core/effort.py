"""How much was computed, counted rather than measured, so that the same question is refused on any machine.

A unit is a closed form that is made on the way, some 20 µs; an operation of a model that runs is three.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from tfcalc.errors import UsageError

OPERATION, FORM = 3, 1


class Spent(Exception):
    """All that may be spent is."""


class Effort:
    """What was ``spent`` since the program began, and up to where it may be."""

    def __init__(self) -> None:
        self.spent = 0
        self.most = inf

    def spend(self, units: int = OPERATION) -> None:
        """Count what is done next. Raises Spent."""
        self.spent += units
        if self.spent > self.most:
            raise Spent


EFFORT = Effort()


@contextmanager
def at_most(units: float, fact: str, remedy: str) -> Iterator[None]:
    """What is asked within takes so many units at most. Raises UsageError, with the fact and the remedy, beyond."""
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
