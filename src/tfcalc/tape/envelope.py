"""Live bytes at every local maximum of a run, as closed forms: the largest at given sizes is the peak there."""

from __future__ import annotations

from operator import le
from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Monomial, Polynomial
from tfcalc.core.traced import formula_of
from tfcalc.tape.memory_tracker import MemoryTracker, Storage


class Envelope(MemoryTracker):
    """Records the live bytes at every local maximum, where other trackers record the global one."""

    __slots__ = ("found", "rising")

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[Polynomial, None] = {}
        self.rising = False

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        self._top()
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        self.found[formula_of(size + self.live)] = None

    def _look(self) -> None:
        self.rising = True

    def _top(self) -> None:
        if self.rising:
            self.found[formula_of(self.live)] = None
            self.rising = False

    @property
    def highest(self) -> list[Polynomial]:
        """Forms of which each may be the largest at some sizes, as far as their coefficients tell."""
        self._top()
        return hull(list(self.found))


class LinearForm(NamedTuple):
    """Coefficients of a closed form: the constant, and those of the other monomials in one order."""

    constant: int
    factors: tuple[int, ...]


def hull(forms: list[Polynomial]) -> list[Polynomial]:
    """Drop the forms that are below another, or below a mean of two others, at all sizes.

    In one letter the largest of lines are their upper hull, found by a walk along their constants (Andrew's monotone
    chain, doi:10.1016/0020-0190(79)90072-3). In more letters the result may have more forms than needed.

    >>> from tfcalc.core.polynomial import symbols
    >>> (l,) = symbols("l")
    >>> hull([l * 4, l + 9, l * 2 + 4, l * 3 + 4, l + 2]) == [4 * l, 3 * l + 4, l + 9]  # 2l + 4 is below 3l + 4
    True
    >>> b, l = symbols("b l")
    >>> len(hull([b * 9, l * 9, b * l])), len(hull([b * 9 + 1, l * 9 + 1, b * l + 1, l]))
    (3, 3)
    """
    powers: list[Monomial] = sorted({monomial for form in forms for monomial in form.terms if monomial}, key=repr)
    highest: dict[tuple[int, ...], int] = {}
    for form in forms:
        factors = tuple(form.terms.get(monomial, 0) for monomial in powers)
        highest[factors] = max(highest.get(factors, 0), form.terms.get((), 0))
    chain: list[LinearForm] = []
    for line in sorted(LinearForm(constant, factors) for factors, constant in highest.items()):
        while len(chain) > 1 and below_mean(chain[-1], chain[-2], line):
            chain.pop()
        chain.append(line)
    kept = [line for line in chain if not any(below(line, other) for other in chain if other is not line)]
    return [Polynomial({(): line.constant, **dict(zip(powers, line.factors, strict=True))}) for line in kept]


def below(line: LinearForm, other: LinearForm) -> bool:
    """Return whether ``line`` is nowhere above ``other``: none of its coefficients is larger."""
    return line.constant <= other.constant and all(map(le, line.factors, other.factors))


def below_mean(line: LinearForm, left: LinearForm, right: LinearForm) -> bool:
    """Return whether ``line`` is nowhere above the mean of ``left`` and ``right`` that has its constant.

    The constants are in the order left, line, right.
    """
    far, near = right.constant - line.constant, line.constant - left.constant
    if not far + near:  # all three constants are equal
        return below(line, left) or below(line, right)
    factors = zip(line.factors, left.factors, right.factors, strict=True)
    return all(own * (far + near) <= of_left * far + of_right * near for own, of_left, of_right in factors)
