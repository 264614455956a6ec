"""Peak of a run at other sizes: amounts are closed forms, evaluated once each and then added up as ints.

Live bytes at every local maximum of a run, as closed forms: the largest at given sizes is the peak there.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, compress
from operator import le
from typing import NamedTuple, cast

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Monomial, Polynomial
from tfcalc.core.traced import Guarded, Traced, formula_of, int_of
from tfcalc.tape.allocations import STEP, StepRecorder
from tfcalc.tape.memory_tracker import MemoryTracker, Storage


class Moments:
    """Changes of the live bytes in order, and the moments at which a tracker compares them with the peak.

    A run allocates thousands of tensors of a few dozen sizes, so only these few forms are evaluated at new sizes.
    """

    def __init__(self) -> None:
        self.amounts: list[Num] = []
        self.changes: list[int] = []
        """Twice an amount's index if it is added; plus 1 if it is subtracted, where no peak can be."""
        self.ended = False
        """True once the optimizer's step has begun: nothing is recorded any more."""
        self._places: dict[object, int] = {}
        self._looked: list[bool] = []

    def place(self, amount: Num) -> int:
        """Return the index of an amount. Guarded numbers are unique objects, so their identity is the key."""
        key = (id(amount),) if type(amount) is Guarded else amount
        index = self._places.get(key)
        if index is None:
            index = self._places[key] = len(self.amounts)
            self.amounts.append(amount)
        return index

    def rises(self, place: int) -> None:
        """Add an amount, after which there may be a peak."""
        self.changes.append(place + place)

    def falls(self, place: int) -> None:
        """Subtract an amount."""
        self.changes.append(place + place + 1)

    def grows(self, amount: Num) -> None:
        """Add an amount where no tracker looks for a peak."""
        self.falls(self.place(amount * -1))

    def most(self, sizes: Mapping[str, int]) -> int:
        """Return the peak at these sizes of the letters.

        >>> moments = Moments()
        >>> for change in (moments.rises, moments.falls):
        ...     change(moments.place(5))
        >>> moments.most({})
        5
        """
        values: list[int] = []
        for amount in self.amounts:
            value = amount if isinstance(amount, int) else formula_of(amount).at(sizes)
            values += (value, -value)
        if len(self._looked) != len(self.changes):
            self._looked = [change % 2 == 0 for change in self.changes]
        live = accumulate(map(values.__getitem__, self.changes))
        return max(compress(live, self._looked), default=0)


class _Sized(MemoryTracker):
    """Counts ints, as every tracker does, and records their closed forms as moments."""

    __slots__ = ()
    moments: Moments
    live_as: dict[int, int]
    """Index of the amount of each live storage, by its identity."""

    def begin(self, phase: str) -> None:
        """Begin a phase; nothing is recorded from the optimizer's step on."""
        super().begin(phase)
        self.moments.ended = self.moments.ended or phase == STEP
        if not self.moments.ended:
            self.moments.rises(self.moments.place(0))

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        size, moments = storage.bytes, self.moments
        self.live_as[id(storage)] = place = moments.place(size)
        moments.changes.append(place + place)
        if type(size) is not int:
            storage.bytes = int_of(size)
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """Count a free, and restore the closed form of its bytes: ``Storage.repeat`` allocates it anew as several."""
        super().gone(storage)
        place, moments = self.live_as.pop(id(storage)), self.moments
        if not moments.ended:
            moments.changes.append(place + place + 1)
            storage.bytes = cast("int", moments.amounts[place])

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        place = self.moments.place(size)
        self.moments.rises(place)
        self.moments.falls(place)
        super().needed(int_of(cast("Traced", size)))

    def lent(self, size: Num) -> None:
        """Count bytes gathered from, or for, other GPUs; negative when they are freed."""
        super().lent(int_of(cast("Traced", size)))

    def multiplied(self, storage: Storage, times: int) -> None:
        """Count a storage ``times`` times, for the layers that its layer represents."""
        before = self.moments.amounts[self.live_as[id(storage)]]
        self.live_as[id(storage)] = self.moments.place(before * times)
        self.moments.grows(before * (times - 1))
        super().multiplied(storage, int_of(times))


class SizedTracker(_Sized):
    """Tracks live bytes, at all sizes."""

    __slots__ = ("live_as", "moments")

    def __init__(self) -> None:
        super().__init__()
        self.moments = Moments()
        self.live_as = {}


class SizedRecorder(_Sized, StepRecorder):
    """Tracks the tensors live at the peak, every allocation, and live bytes at all sizes."""

    __slots__ = ("live_as", "moments")

    def __init__(self) -> None:
        super().__init__()
        self.moments = Moments()
        self.live_as = {}


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
