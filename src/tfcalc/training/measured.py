"""Errors of what tfcalc counts against what was measured: saved bytes of each class, and figures that a card shows.

measured.csv has the worst of several random small configs of a class, in eager attention in fp32 and with PyTorch's own
choice of a kernel in bf16 (``make measured TYPE=…`` appends lines); or the word ``never``, of a class that transformers
lacks, which is answered, and marked as never compared. A card shows more than is allocated, by bands of published
measurements:

==============  ==============================================================================================
``allocated``   ``torch.cuda.max_memory_allocated``: this model, with its error
``reserved``    ``torch.cuda.max_memory_reserved``: the caching allocator simulated, with its error
``device``      nvidia-smi: reserved, the CUDA context, and the kernels and libraries that are loaded
==============  ==============================================================================================
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tfcalc.configs.published import HFModel


TABLE = Path(__file__).with_name("measured.csv")
NEVER = "never"
MOST = 0.25
"""Largest error at which an estimate is given; a class whose equal layers saved unequal bytes has an infinite one."""


@cache
def table() -> Mapping[str, Mapping[str, float | None]]:
    """Relative errors of the bytes that are saved for backward, by ``model_type`` and by the class that was built.

    None marks a class that was never compared. What could not be run is missing.
    """
    found: dict[str, dict[str, float | None]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for model_type, architecture, error in csv.reader(file):
            found.setdefault(model_type, {})[architecture] = None if error == NEVER else float(error)
    return found


@cache
def errors() -> Mapping[str, Mapping[str, float]]:
    """The errors of what was compared."""
    compared = {
        model_type: {architecture: error for architecture, error in classes.items() if error is not None}
        for model_type, classes in table().items()
    }
    return {model_type: classes for model_type, classes in compared.items() if classes}


def known(model_type: str) -> dict[str, float | None]:
    """The errors of this type's classes that are answered: those that are small enough, and None if never compared."""
    return {
        architecture: error
        for architecture, error in table().get(model_type, {}).items()
        if error is None or abs(error) <= MOST
    }


@cache
def trainable() -> tuple[str, ...]:
    """The model types whose training memory is answered: of one of their classes at least."""
    return tuple(sorted(filter(known, table())))


def error_of(model: HFModel) -> float | None:
    """The error of the model's class, or of that with the same head, where a file spells its name in another way.

    None marks a class that was never compared.

    Raises InvalidModel where it is not known, or too large to say anything.
    """
    family, architecture = model.family, model.architecture
    measured = known(family.model_type)
    if not measured:
        hint = f"tfcalc models --trainable lists the {len(trainable())} families that are"
        raise InvalidModel(f"training memory is not supported for {family.model_type}", hint)
    by_head = {family.head_of(name): error for name, error in measured.items()}
    if (head := family.head_of(architecture)) not in by_head:
        raise InvalidModel(
            f"training memory is not supported for {architecture}",
            f"of {family.model_type} it was compared with PyTorch's for {' and '.join(sorted(measured))}",
        )
    return by_head[head]


CARD_TABLE = Path(__file__).with_name("card_memory.csv")
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
    with CARD_TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            one = Band(float(row["low"]), float(row["high"]))
            before = found.get(row["line"], one)
            found[row["line"]] = Band(min(before.low, one.low), max(before.high, one.high))
    return found


def on_card(allocated: int, reserved: int, context: int, *, megatron: bool = False) -> OnCard:
    """The bands around what is allocated and reserved; ``context`` is what is assumed of it.

    Of what ``megatron`` reserves there is a band of its own: all of its large buffers are there from the beginning.

    >>> on_card(10 * 2**30, 11 * 2**30, 2**29).device.low == int(0.96 * 11 * 2**30) + 256 * 2**20
    True
    """
    known = bands()
    of_reserved = known["reserved of megatron" if megatron else "reserved"]
    least, most = known["context"].low, known["old context"].high
    high = int(reserved * of_reserved.high)
    low = max(int(reserved * of_reserved.low), allocated)
    return OnCard(
        Figure(allocated, int(allocated * known["allocated"].low), int(allocated * known["allocated"].high)),
        Figure(reserved, low, high),
        Figure(reserved + context, low + int(least * MIB), high + int(most * MIB)),
    )


def allocatable(usable: int) -> int:
    """Largest peak for a process that can use ``usable`` bytes, with room for the error of published peaks.

    >>> allocatable(108)
    100
    """
    return int(usable / bands()["allocated"].high)


def most_reserved(simulated: int) -> int:
    """Upper end of what PyTorch's cache takes, where this much was simulated, by published measurements.

    >>> most_reserved(100)
    123
    """
    return int(simulated * bands()["reserved"].high)


def most_simulated(most: int) -> int:
    """Most bytes that could be simulated, so that published measurements take no more than ``most``.

    >>> most_simulated(123), most_reserved(most_simulated(1000)) <= 1000
    (100, True)
    """
    return int(most / bands()["reserved"].high)


def least_allocated(peak: int) -> int:
    """The peak, less the error of published peaks: what is certainly allocated.

    >>> least_allocated(100)
    98
    """
    return int(peak * bands()["allocated"].low)
