"""Every amount that is live at some moment, as closed forms: the most of them is the peak, at many sizes at once."""

from __future__ import annotations

from operator import le
from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Monomial, Polynomial
from tfcalc.core.traced import formula_of
from tfcalc.tape.memory_tracker import MemoryTracker, Storage


class Envelope(MemoryTracker):
    """Remembers the bytes that are live whenever they stop rising, where others remember the highest."""

    __slots__ = ("found", "rising")

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Polynomial, None] = {}
        self.rising = False

    def gone(self, storage: Storage) -> None:
        """So many bytes less."""
        self._top()
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        self.found[formula_of(size + self.live)] = None

    def _look(self) -> None:
        self.rising = True

    def _top(self) -> None:
        if self.rising:
            self.found[formula_of(self.live)] = None
            self.rising = False

    @property
    def highest(self) -> list[Polynomial]:
        """Those of which each is the highest somewhere, as far as can be seen from their factors."""
        self._top()
        return hull(list(self.found))


class Line(NamedTuple):
    """A closed form by its factors: that of no letter, and those of the others in one order."""

    constant: int
    factors: tuple[int, ...]


def hull(forms: list[Polynomial]) -> list[Polynomial]:
    """The forms that no other, and no mean of two others, is above at all sizes.

    The highest of lines in one letter are their upper hull, which a walk along the order of their constants finds
    (Andrew's monotone chain, doi:10.1016/0020-0190(79)90072-3). With more letters it may keep more than it needs.

    >>> from tfcalc.core.polynomial import symbols
    >>> (l,) = symbols("l")
    >>> hull([l * 4, l + 9, l * 2 + 4, l * 3 + 4, l + 2]) == [4 * l, 3 * l + 4, l + 9]  # 2l + 4 is below 3l + 4
    True
    >>> b, l = symbols("b l")
    >>> len(hull([b * 9, l * 9, b * l])), len(hull([b * 9 + 1, l * 9 + 1, b * l + 1, l]))
    (3, 3)
    """
    powers: list[Monomial] = sorted({each for form in forms for each in form.terms if each}, key=repr)
    highest: dict[tuple[int, ...], int] = {}
    for form in forms:
        factors = tuple(form.terms.get(each, 0) for each in powers)
        highest[factors] = max(highest.get(factors, 0), form.terms.get((), 0))
    chain: list[Line] = []
    for line in sorted(Line(constant, factors) for factors, constant in highest.items()):
        while len(chain) > 1 and below_mean(chain[-1], chain[-2], line):
            chain.pop()
        chain.append(line)
    kept = [line for line in chain if not any(below(line, other) for other in chain if other is not line)]
    return [Polynomial({(): line.constant, **dict(zip(powers, line.factors, strict=True))}) for line in kept]


def below(line: Line, other: Line) -> bool:
    """Whether it is nowhere above the other: none of its factors is higher."""
    return line.constant <= other.constant and all(map(le, line.factors, other.factors))


def below_mean(line: Line, left: Line, right: Line) -> bool:
    """Whether it is nowhere above the mean of two others that has its constant; the constants are in this order."""
    far, near = right.constant - line.constant, line.constant - left.constant
    if not far + near:  # every mean of them has it
        return below(line, left) or below(line, right)
    both = zip(line.factors, left.factors, right.factors, strict=True)
    return all(own * (far + near) <= one * far + other * near for own, one, other in both)
