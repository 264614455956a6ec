"""What a card shows of a training run, beyond what is allocated: bands, each learned from published measurements.

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
    """From ``low`` to ``high``: times a prediction, or bytes."""

    low: float
    high: float


class Figure(NamedTuple):
    """So many bytes, and the least and most that they may turn out to be."""

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
    """By line; of several measurements from the least to the most."""
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
    """How much may be allocated where a process can use so many bytes: fragments, and errors of the model, need room.

    >>> allocatable(125)
    100
    """
    return int(usable / bands()["fit"].high)
