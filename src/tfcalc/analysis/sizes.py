"""A size that may grow while all else stays as it is asked, and how far it may within a budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfcalc.analysis.largest import MOST, largest
from tfcalc.errors import TfcalcError

MULTIPLE = 128
"""Lengths in tokens are rounded down to a multiple of it."""
WORDS = {"batch_size": "batch", "seq_len": "sequence"}


class Size(NamedTuple):
    """One size that may grow while all else stays as asked: its ``name``, ``flag``, ``asked`` value, and its need.

    Of a ``length`` in tokens, ``longest`` is what the model was made for, where that is known; memory may be taken for
    a ``step`` of so many at once.
    """

    name: str
    flag: str
    asked: int
    need: Callable[[int], int]
    length: bool = False
    longest: int | None = None
    step: int = 1

    @property
    def words(self) -> str:
        """As people say it."""
        return WORDS.get(self.name, self.name)

    @property
    def key(self) -> str:
        """As in the JSON."""
        return f"largest_{self.name}"

    @property
    def limit(self) -> int | None:
        """What the model was made for, unless more was asked for anyway."""
        return None if self.longest is None or self.asked > self.longest else self.longest


class Largest(NamedTuple):
    """The largest ``exact`` value that fits; None where it has no limit, or where ``reason`` says why not.

    ``value`` is what to take: a length is rounded down, and at most what the model was made for. ``total`` are its
    bytes.
    """

    of: Size
    exact: int | None
    value: int | None
    total: int | None = None
    reason: str = ""

    @property
    def number(self) -> str:
        """``12``, ``none``, ``any``, ``8,192 (the model's limit)``."""
        if self.value is None:
            return "not known" if self.reason else "any"
        if not self.value:
            return "none"
        of_model = self.of.limit == self.value
        beyond = self.of.longest is not None and self.value > self.of.longest
        noted = " (the model's limit)" if of_model else f" (made for {self.of.longest:,})" if beyond else ""
        return f"{self.value:,}{noted}"

    @property
    def flags(self) -> str:
        """``--batch 12``; empty where there is none."""
        return f"{self.of.flag} {self.value}" if self.value else ""

    def to_dict(self) -> dict[str, object]:
        """The value to take, and of a length the exact one."""
        exact = {f"{self.of.key}_exact": self.exact} if self.of.length else {}
        return {self.of.key: self.value, **exact}


def largest_of(size: Size, budget: int) -> Largest:
    """The largest value within the budget, from the one that was asked for on."""
    try:
        exact = largest(size.need, budget, start=size.asked, step=size.step)
        if exact == MOST:
            return Largest(size, None, size.limit, size.need(size.limit) if size.limit else None)
        value = exact if size.limit is None else min(exact, size.limit)
        if size.length and MULTIPLE <= value == exact:
            value = _multiple(size, exact, budget)
        return Largest(size, max(exact, value), value, size.need(value) if value else None)
    except TfcalcError as error:
        return Largest(size, None, None, reason=str(error))


def _multiple(size: Size, exact: int, budget: int) -> int:
    """The largest multiple of so many tokens within the budget, from the one below ``exact`` on.

    It may be larger than ``exact``: kernels that want lengths of multiples of 8 copy and fill up what is none, so that
    one token more takes more than a hundred more.
    """
    most = (size.limit or MOST) // MULTIPLE
    return MULTIPLE * largest(lambda n: size.need(n * MULTIPLE), budget, start=exact // MULTIPLE, most=most)
