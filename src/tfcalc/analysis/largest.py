"""The largest size whose need is within a budget: of a batch, a sequence, a context, so many requests at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt

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
        """Whether a size that is not within has been seen."""
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
        """The same, or further from the end that alone has moved of late; at most to the middle."""
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
        """Where lines through the trials next to the ends meet the budget, as far as that is between the ends."""
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
