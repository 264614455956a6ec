"""Largest size whose need is within a budget: of a batch, a sequence, a context, or the requests served at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

from tfcalc.errors import InvalidModel, TfcalcError
from tfcalc.named_tuple import NamedTuple

MOST = 10**12
"""The largest size that is tried: no dimension is accepted beyond it."""
STRIDE = 64
"""By how much a size may grow from one trial to the next while all have been within the budget."""
GUESSES = 16
"""So often it is guessed between what is within and what is not; then the interval is halved."""
NEARER = 8
"""By how many times as much the next step from a guess is longer, until sizes on both sides have been seen."""
FAR = 4
"""Where one end is so many times the other, the middle between them is the geometric one."""

Trial = tuple[int, int]
"""A size and its need."""


def largest(
    need: Callable[[int], int],
    budget: int,
    *,
    start: int = 1,
    then: int = 0,
    near: int = 0,
    most: int = MOST,
    step: int = 1,
) -> int:
    """The largest n from 1 to ``most`` with ``need(n) <= budget``; 0 where not even 1 is. ``need`` must never fall.

    Both ``need(n) <= budget`` and, below ``most``, ``need(n + 1) > budget`` have been seen when it returns. n is
    guessed by lines through two trials each (secants): two below the budget, two above, or one of each. A straight
    piece of ``need`` is so answered at once, and a curved one closes in. Where one end alone moves, steps from it grow
    fourfold. ``start`` is where to begin: best a size whose need is known; ``then`` is tried next, where that is within
    the budget. Where ``near`` is a guess of what will be found, it and its neighbours are tried instead. Where ``need``
    rises behind each multiple of a ``step``, these are tried first.

    >>> largest(lambda n: 100 + 7 * n, 1000), largest(lambda n: n * n, 10**9), largest(lambda n: 100, 99)
    (128, 31622, 0)
    """
    search = _Search(need, budget, most, step)
    if 0 < near <= most:
        search.from_guess(near)
    elif most >= 1:
        search.trial(min(max(start, 1), most))
        if 0 < search.within < then <= most:
            search.trial(then)
    while search.above - search.within > 1:
        search.trial(search.guess() if search.within else 1)
    return search.within


class _Search:
    """``within`` is the largest size seen to be within the budget (0: none yet), ``above`` the smallest that is not."""

    def __init__(self, need: Callable[[int], int], budget: int, most: int, step: int) -> None:
        self.need, self.budget, self.most, self.step = need, budget, most, step
        self.within, self.above = 0, max(most, 0) + 1
        self.seen: dict[int, int] = {}
        self.guesses = 0
        self.moves = 0
        """How many trials in a row have moved the lower end (+), or the upper one (−)."""

    @property
    def closed(self) -> bool:
        """True if a size that is not within has been seen."""
        return self.above <= self.most

    def trial(self, size: int) -> None:
        """Ask for the need of one more size between the two ends."""
        closed = self.closed
        self.seen[size] = self.need(size)
        if self.seen[size] <= self.budget:
            self.within, self.moves = size, max(self.moves, 0) + closed
        else:
            self.above, self.moves = size, min(self.moves, 0) - closed

    def from_guess(self, size: int) -> None:
        """Try a size, and others further and further from it, until one is within the budget and one is not."""
        stride = 1
        while self.within < size < self.above:
            self.trial(size)
            if self.within and self.closed:
                break
            size = min(self.within + stride, self.most) if self.within else max(self.above - stride, 1)
            stride *= NEARER

    def guess(self) -> int:
        """The size to try next, between the two ends."""
        low, high = self.within, self.above
        lines = list(self._lines())
        if not self.closed:
            furthest = STRIDE * low
            size = min(*lines, furthest) if lines else furthest
        else:
            self.guesses += 1
            size = self._further(lines[self.guesses % len(lines)])
        return self._end_of_step(min(max(size, low + 1), high - 1))

    def _end_of_step(self, size: int) -> int:
        """The end of its step, or of that before it; where neither is between the ends, the size behind a step."""
        for end in (-(-size // self.step) * self.step, size // self.step * self.step):
            if self.within < end < self.above:
                return end
        return size if self.within % self.step else self.within + 1

    def _further(self, size: int) -> int:
        """Return the size, or one further from the end that alone has moved of late; at most the middle."""
        low, high = self.within, self.above
        if self.guesses > GUESSES:
            return (low + high) // 2
        middle = isqrt(low * high) if high > FAR * low else (low + high) // 2
        growth = int(4 ** (abs(self.moves) - 1)) if self.moves else 1
        if self.moves > 1:
            return max(size, min(low + max(size - low, 1) * growth, middle))
        if self.moves < -1:
            return min(size, max(high - max(high - size, 1) * growth, middle))
        return size

    def _lines(self) -> Iterator[int]:
        """Yield where lines through the trials next to the ends meet the budget, as far as that is between the ends."""
        below = sorted((trial for trial in self.seen.items() if trial[0] <= self.within), reverse=True)[:2]
        above = sorted(trial for trial in self.seen.items() if trial[0] >= self.above)[:2]
        for pair in (above, below):
            if len(pair) == 2 and pair[0][1] != pair[1][1]:
                meets = self._meets(*pair)
                if self.within <= meets and (meets < self.above or not self.closed):
                    yield meets
        if below and above:
            yield self._meets(below[0], above[0])

    def _meets(self, one: Trial, other: Trial) -> int:
        (n, here), (m, there) = one, other
        return n + (self.budget - here) * (m - n) // (there - here)


MULTIPLE = 128
"""Lengths in tokens are rounded down to a multiple of it."""
LESS = (64, 8, 1)
"""Chunks are of so many, kernels want multiples of so many; and then there is any length."""
WORDS = {
    "batch_size": "batch",
    "seq_len": "sequence",
    "max_completion_length": "completion",
    "gpu_layers": "layers on the card",
}


class GrowingSize(NamedTuple):
    """One size that may grow while all else stays as asked: its ``name``, ``flag``, ``asked`` value, and its need.

    Of a ``length`` in tokens, ``longest`` is what the model was made for, where that is known; memory may be taken for
    ``step`` tokens at once. ``roughly`` is a need that is found at once, and may be wrong; None while nothing is known.
    What is within the budget ``runs`` if an allocator finds room for it, too, and may fit no better than ``tight``.
    """

    name: str
    flag: str
    asked: int
    need: Callable[[int], int]
    length: bool = False
    longest: int | None = None
    step: int = 1
    roughly: Callable[[int], int | None] = lambda _: None
    runs: Callable[[int], bool] = lambda _: True
    tight: Callable[[int], bool] = lambda _: False

    @property
    def words(self) -> str:
        """Name of the size, as people say it."""
        return WORDS.get(self.name, self.name)

    @property
    def key(self) -> str:
        """Key of the largest value in the JSON."""
        return f"largest_{self.name}"

    def near(self, budget: int) -> int:
        """A guess of the largest value; 0 where nothing is known."""
        if self.roughly(self.asked) is None:
            return 0
        return largest(lambda value: self.roughly(value) or 0, budget, start=self.asked)

    @property
    def limit(self) -> int | None:
        """Length that the model was made for, unless more was asked for anyway."""
        return None if self.longest is None or self.asked > self.longest else self.longest


@dataclass(frozen=True)
class Largest:
    """The largest value within a ``budget``: the one to take, and its bytes in all.

    A length is rounded down, and at most what the model was made for. ``value`` is None where there is no limit, or
    where ``reason`` says why it is not known.
    """

    of: GrowingSize
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
        noted = " (the model's limit)" if of_model else f" (made for {self.of.longest:,})" if self.beyond else ""
        return f"{self.value:,}{noted}"

    @property
    def beyond(self) -> bool:
        """Return whether it is more than the model was made for."""
        return self.of.longest is not None and self.value is not None and self.value > self.of.longest

    @property
    def flags(self) -> str:
        """``--batch 12``; empty where there is none."""
        return f"{self.of.flag} {self.value}" if self.value else ""

    def to_dict(self) -> dict[str, object]:
        """The value to take, and of a length the exact one."""
        exact = {f"{self.of.key}_exact": self.exact} if self.of.length else {}
        return {self.of.key: self.value, **exact}


def largest_of(size: GrowingSize, budget: int) -> Largest:
    """The largest value within the budget, from the one that was asked for on."""
    try:
        value = _that_runs(size, budget, _length(size, budget) if size.length else _any(size, budget))
        return Largest(size, budget, value, size.need(value) if value else None)
    except TfcalcError as error:
        return Largest(size, budget, None, reason=str(error))


def _that_runs(size: GrowingSize, budget: int, value: int | None) -> int | None:
    """Return the value, or the largest below it for which the allocator finds room."""
    if not value or size.runs(value):
        return value
    of = MULTIPLE if size.length and value > MULTIPLE else 1

    def need(n: int) -> int:
        return size.need(n * of) if size.runs(n * of) else budget + 1

    return of * largest(need, budget, near=(value - 1) // of, most=(value - 1) // of)


def _any(size: GrowingSize, budget: int) -> int | None:
    """The largest value; None where it has no limit."""
    found = largest(size.need, budget, start=size.asked, step=size.step)
    return None if found == MOST else found


def _length(size: GrowingSize, budget: int) -> int | None:
    """Length that the model was made for, if it is within the budget; else the largest multiple of 128 tokens that is.

    A multiple may be larger than the largest length before one that is not within: kernels that want multiples of 8
    copy and fill up what is none, so that one token more takes more than a hundred more.
    """
    limit = size.limit
    if limit is not None and size.need(size.asked) <= budget and size.need(limit) <= budget:
        return limit
    found = _multiple(size, budget, MULTIPLE, most=limit or MOST, then=limit or 0)
    if found != 0:
        return found
    try:
        return _any(size, budget)
    except InvalidModel:  # GPUs that share a sequence share multiples alone
        return 0


def _exact(size: GrowingSize, budget: int, value: int) -> int | None:
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


def _multiple(size: GrowingSize, budget: int, of: int, *, most: int = MOST, then: int = 0) -> int | None:
    """The largest multiple of ``of`` tokens; None where it has no limit."""
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
