"""What runs one by one where it matters what is live when: layers, turns of the same layers, streams beside another."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.errors import TooMany

T = TypeVar("T")
MOST_BY_THEMSELVES = 256
"""Of those that run one by one; published models have fewer than 130 layers, and equal ones count as a few."""

MOST_IN_A_ROW = 10_000
"""Layers of a stack that runs, of which those that repeat stand for each other."""


def bounded(each: Iterable[T], what: str = "layers that differ from their neighbours") -> list[T]:
    """These, each of which runs by itself. Raises TooMany where they are too many."""
    few = list(islice(each, MOST_BY_THEMSELVES + 1))
    if len(few) > MOST_BY_THEMSELVES:
        raise TooMany(
            f"more than {MOST_BY_THEMSELVES} {what} are too many to follow one by one",
            f"give at most {MOST_BY_THEMSELVES}",
        )
    return few


def in_a_row(count: Num) -> int:
    """So many layers, equal or not. Raises TooMany where they are too many to stand beside each other."""
    number = value_of(count)
    if number > MOST_IN_A_ROW:
        raise TooMany(f"{number:,} layers are too many to follow one by one", f"give at most {MOST_IN_A_ROW:,}")
    return number


def each_turn(times: Num, what: str = "turns of the same layers") -> list[int]:
    """The numbers of so many turns, or of so many streams. Raises TooMany likewise."""
    return bounded(range(value_of(times)), what)


def bounded_kinds(count: int) -> int:
    """So many kinds of layers. Raises TooMany where they are too many to count each by itself."""
    if count > MOST_BY_THEMSELVES:
        raise TooMany(
            f"more than {MOST_BY_THEMSELVES} layers that are unlike each other are too many to count one by one",
            f"give at most {MOST_BY_THEMSELVES}",
        )
    return count
