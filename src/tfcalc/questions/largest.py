"""The largest size whose need is within a budget: of a batch, a sequence, a context, so many requests at once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

MOST = 10**12
"""The largest size that is tried: no dimension is accepted beyond it."""
STRIDE = 64
"""By how much a size may grow from one trial to the next while all have been within the budget."""
GUESSES = 12
"""So often it is guessed between what is within and what is not; then the interval is halved."""


def largest(need: Callable[[int], int], budget: int, *, start: int = 1, most: int = MOST) -> int:
    """The largest n from 1 to ``most`` with ``need(n) <= budget``; 0 where not even 1 is. ``need`` must never fall.

    Where both exist, ``need(n) <= budget < need(n + 1)`` has been seen, not concluded. n is guessed by the line through
    the two trials whose need is nearest to the budget (the secant method), which a straight piece of ``need`` answers
    at once. A guess that takes off too little is followed by steps that grow fourfold; the last resort is to halve.
    ``start`` is where to begin: a size whose need is known.

    >>> largest(lambda n: 100 + 7 * n, 1000), largest(lambda n: n * n, 10**9), largest(lambda n: 100, 99)
    (128, 31622, 0)
    """
    if most < 1:
        return 0
    search = _Search(need, budget, most)
    search.trial(min(max(start, 1), most))
    while search.above - search.within > 1:
        search.trial(search.guess())
    return search.within


class _Search:
    """``within`` is the largest size seen to be within the budget (0: none yet), ``above`` the smallest that is not."""

    def __init__(self, need: Callable[[int], int], budget: int, most: int) -> None:
        self.need, self.budget = need, budget
        self.within, self.above, self.beyond = 0, most + 1, most + 1
        self.seen: dict[int, int] = {}
        self.guesses = 0
        self.step = 0
        """The last trial's, up (+) or down (−) from the end that it moved, where it took off less than a quarter."""

    def trial(self, size: int) -> None:
        """Ask for the need of one more size, strictly between the two ends."""
        width, found = self.above - self.within, self.need(size)
        self.seen[size] = found
        bracketed = self.above != self.beyond
        moved = size - self.within if found <= self.budget else size - self.above
        if found <= self.budget:
            self.within = size
        else:
            self.above = size
        self.step = moved if bracketed and 4 * abs(moved) < width else 0

    def guess(self) -> int:
        """The size to try next."""
        low, high = self.within, self.above
        if low == 0:
            return 1
        line = self._by_line()
        if high == self.beyond:
            furthest = STRIDE * low
            return min(max(furthest if line is None else min(line, furthest), low + 1), high - 1)
        self.guesses += 1
        if self.guesses > GUESSES:
            return (low + high) // 2
        if line is None or not low <= line < high:
            line = low + (high - low) * (self.budget - self.seen[low]) // (self.seen[high] - self.seen[low])
        if self.step > 0 and line - low < 4 * self.step:
            line = low + 4 * self.step if self.step > 1 or self.guesses > 4 else low + 1
        elif self.step < 0 and high - line < -4 * self.step:
            line = high + 4 * self.step
        return min(max(line, low + 1), high - 1)

    def _by_line(self) -> int | None:
        """Where the line through the two trials nearest to the budget meets it; None where it never does."""
        near = sorted(self.seen.items(), key=lambda trial: abs(trial[1] - self.budget))[:2]
        if len(near) < 2 or near[0][1] == near[1][1]:
            return None
        (n, here), (m, there) = near
        return n + int((self.budget - here) * Fraction(m - n, there - here) // 1)
