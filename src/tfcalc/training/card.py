"""Memory of a training run as a card shows it, beyond what is allocated: bands from published measurements.

==============  ==============================================================================================
``allocated``   ``torch.cuda.max_memory_allocated``: this model, with its error
``reserved``    ``torch.cuda.max_memory_reserved``: the caching allocator simulated, with its error
``device``      nvidia-smi: reserved, the CUDA context, and the kernels and libraries that are loaded
==============  ==============================================================================================
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("card_memory.csv")
MIB = 2**20


class Band(NamedTuple):
    """Range from ``low`` to ``high``: factors of a prediction, or bytes."""

    low: float
    high: float


class Figure(NamedTuple):
    """Estimate in bytes, with its lower and upper end."""

    bytes: int
    low: int
    high: int


class OnCard(NamedTuple):
    """The three figures."""

    allocated: Figure
    reserved: Figure
    device: Figure


@cache
def bands() -> dict[str, Band]:
    """Bands by line of the table; where a line has several measurements, from the smallest to the largest."""
    found: dict[str, Band] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one = Band(float(row["low"]), float(row["high"]))
            before = found.get(row["line"], one)
            found[row["line"]] = Band(min(before.low, one.low), max(before.high, one.high))
    return found


def on_card(allocated: int, reserved: int, context: int) -> OnCard:
    """The bands around what is allocated and reserved; ``context`` is what is assumed of it.

    >>> on_card(10 * 2**30, 11 * 2**30, 2**29).device.low == int(0.97 * 11 * 2**30) + 256 * 2**20
    True
    """
    known = bands()
    of_reserved, least, most = known["reserved"], known["context"].low, known["old context"].high
    high = int(reserved * of_reserved.high)
    low = max(int(reserved * of_reserved.low), allocated)
    return OnCard(
        Figure(allocated, int(allocated * known["allocated"].low), int(allocated * known["allocated"].high)),
        Figure(reserved, low, high),
        Figure(reserved + context, low + int(least * MIB), high + int(most * MIB)),
    )


def allocatable(usable: int) -> int:
    """Largest allocation for a process that can use ``usable`` bytes, with room for fragmentation and model error.

    >>> allocatable(125)
    100
    """
    return int(usable / bands()["fit"].high)
