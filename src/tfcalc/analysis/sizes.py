"""A size that may grow while all else stays as it is asked, and how far it may within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tfcalc.analysis.largest import MOST, largest
from tfcalc.errors import TfcalcError

MULTIPLE = 128
"""Lengths in tokens are rounded down to a multiple of it."""
LESS = (64, 8, 1)
"""Chunks are of so many, kernels want multiples of so many; and then there is any length."""
WORDS = {"batch_size": "batch", "seq_len": "sequence"}


class Size(NamedTuple):
    """One size that may grow while all else stays as asked: its ``name``, ``flag``, ``asked`` value, and its need.

    Of a ``length`` in tokens, ``longest`` is what the model was made for, where that is known; memory may be taken for
    a ``step`` of so many at once. ``roughly`` is a need that is found at once, and may be wrong; None while nothing is
    known.
    """

    name: str
    flag: str
    asked: int
    need: Callable[[int], int]
    length: bool = False
    longest: int | None = None
    step: int = 1
    roughly: Callable[[int], int | None] = lambda _: None

    @property
    def words(self) -> str:
        """As people say it."""
        return WORDS.get(self.name, self.name)

    @property
    def key(self) -> str:
        """As in the JSON."""
        return f"largest_{self.name}"

    def near(self, budget: int) -> int:
        """A guess of the largest value; 0 where nothing is known."""
        if self.roughly(self.asked) is None:
            return 0
        return largest(lambda value: self.roughly(value) or 0, budget, start=self.asked)

    @property
    def limit(self) -> int | None:
        """What the model was made for, unless more was asked for anyway."""
        return None if self.longest is None or self.asked > self.longest else self.longest


@dataclass(frozen=True)
class Largest:
    """The largest value within a ``budget``: the one to take, and its bytes in all.

    A length is rounded down, and at most what the model was made for. ``value`` is None where there is no limit, or
    where ``reason`` says why it is not known.
    """

    of: Size
    budget: int
    value: int | None
    total: int | None = None
    reason: str = ""

    @cached_property
    def exact(self) -> int | None:
        """The largest value itself: of a length it takes a search of its own. None where it has no limit."""
        if self.reason or not self.of.length:
            return self.value
        try:
            return _exact(self.of, self.budget, self.value) if self.value else self.value
        except TfcalcError:
            return self.value

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
        value = _length(size, budget) if size.length else _any(size, budget)
        return Largest(size, budget, value, size.need(value) if value else None)
    except TfcalcError as error:
        return Largest(size, budget, None, reason=str(error))


def _any(size: Size, budget: int) -> int | None:
    """The largest value; None where it has no limit."""
    found = largest(size.need, budget, start=size.asked, step=size.step)
    return None if found == MOST else found


def _length(size: Size, budget: int) -> int | None:
    """What the model was made for, if it is within the budget; else the largest multiple of 128 tokens that is.

    A multiple may be larger than the largest length before one that is not within: kernels that want multiples of 8
    copy and fill up what is none, so that one token more takes more than a hundred more.
    """
    limit = size.limit
    if limit is not None and size.need(size.asked) <= budget and size.need(limit) <= budget:
        return limit
    found = _multiple(size, budget, MULTIPLE, most=limit or MOST, then=limit or 0)
    return _any(size, budget) if found == 0 else found


def _exact(size: Size, budget: int, value: int) -> int | None:
    """The largest length where the largest ``value`` to take is known; None where it has no limit.

    It is behind the largest multiple, and not as far behind it as the next. There it may be a multiple again, of less.
    """
    if value == size.limit:
        beyond = _multiple(size, budget, MULTIPLE)
        if beyond is None:
            return None
        value = max(value, beyond)
    above = value + MULTIPLE
    for of in LESS:
        found = largest(lambda n, of=of: size.need(n * of), budget, start=value // of, then=above // of)  # type: ignore[misc]
        value = max(value, found * of)
        above = value + of
    return value


def _multiple(size: Size, budget: int, of: int, *, most: int = MOST, then: int = 0) -> int | None:
    """The largest multiple of so many tokens; None where it has no limit."""
    near = size.near(budget) // of
    found = largest(
        lambda n: size.need(n * of),
        budget,
        start=size.asked // of,
        then=then // of,
        near=min(near, most // of),
        most=most // of,
    )
    return None if found == MOST // of else found * of
