"""A size that may grow while all else stays as it is asked, and how far it may within a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfcalc.errors import TfcalcError
from tfcalc.questions.largest import MOST, largest


class Size(NamedTuple):
    """One size that may grow while all else stays as asked: its ``name``, ``flag``, ``asked`` value, and its need."""

    name: str
    flag: str
    asked: int
    need: Callable[[int], int]

    @property
    def words(self) -> str:
        """As people say it."""
        return {"batch_size": "batch", "seq_len": "sequence"}.get(self.name, self.name)

    @property
    def key(self) -> str:
        """As in the JSON."""
        return f"largest_{self.name}"


class Largest(NamedTuple):
    """The largest value that fits, with its bytes; None where it has no limit, or where ``reason`` says why not."""

    of: Size
    value: int | None
    total: int | None = None
    reason: str = ""

    @property
    def in_words(self) -> str:
        """``largest batch: 12``."""
        size = ("not known" if self.reason else "any") if self.value is None else f"{self.value:,}"
        return f"largest {self.of.words}: {size if self.value != 0 else 'none fits'}"

    @property
    def flag(self) -> str:
        """``--batch 12``; empty where there is none."""
        return f"{self.of.flag} {self.value}" if self.value else ""


def largest_of(size: Size, budget: int) -> Largest:
    """The largest value within the budget, from the one that was asked for on."""
    try:
        found = largest(size.need, budget, start=size.asked)
    except TfcalcError as error:
        return Largest(size, None, reason=str(error))
    if found == MOST:
        return Largest(size, None)
    return Largest(size, found, size.need(found) if found else None)
