"""A number that remembers its closed form, and what was decided by it on the way: where else the form holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from tfcalc.core.effort import EFFORT, FORM
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.core.traced import Traced, formula_of

EQUAL, LESS = "= 0", "< 0"


class Guards:
    """What was decided: of closed forms, whether they were 0, or below. Where all of it is the same, so is the rest.

    >>> guards = Guards()
    >>> l = guarded("l", 200, guards)
    >>> "long" if l > 128 else "short"
    'long'
    >>> guards.hold({"l": 129}), guards.hold({"l": 128})
    (True, False)
    """

    def __init__(self) -> None:
        self.decided: dict[tuple[Polynomial, str], bool] = {}
        self.numbers: dict[Polynomial, Guarded] = {}
        """Every number by its closed form: there is one of each, so that they can be told apart by identity."""
        self.open = True
        """Whether what is decided is remembered; numbers remember no more than their closed forms from then on."""
        self.others: list[object] = []
        """Those that were computed with, which live as long as their identity is used."""

    def decide(self, difference: Polynomial, relation: str, value: int) -> bool:
        """Whether the ``difference``, which is ``value`` here, is as the relation says; remembered, if it could not be.

        Sizes are at least 1, so that a sum of them with factors above 0 is, too.
        """
        outcome = value == 0 if relation == EQUAL else value < 0
        if self.open and isinstance(difference, Polynomial) and difference.free_symbols:
            factors = difference.terms.values()
            if not all(factor > 0 for factor in factors) and not all(factor < 0 for factor in factors):
                self.decided[difference, relation] = outcome
        return outcome

    def close(self) -> None:
        """All has been decided."""
        self.open = False

    def hold_at(self, sizes: Mapping[str, int]) -> bool:
        """The same at a single point: not where a number would be divided by 0.

        >>> guards = Guards()
        >>> 7 // guarded("l", 2, guards) > 2
        True
        >>> guards.hold_at({"l": 1}), guards.hold_at({"l": 0})
        (True, False)
        """
        try:
            return bool(self.hold(sizes))
        except ZeroDivisionError:
            return False

    def hold(self, points: Mapping[str, Num]) -> Any:
        """Whether all was decided in the same way at these points: a bool, or an array of them."""
        same: Any = True
        for (difference, relation), outcome in self.decided.items():
            value = difference.at(points)
            found = value == 0 if relation == EQUAL else value < 0
            same = same & (found == outcome)
        return same


Operation = TypeVar("Operation", bound=Callable[..., Any])


def once(operation: Operation) -> Operation:
    """The same, computed once for each two numbers: a model has few sizes, and computes with them again and again."""

    def remembered(self: Guarded, other: Any) -> Any:
        kind = type(other)
        if kind is int:
            key: tuple[object, ...] = operation, other
        elif kind is Guarded or kind is Traced:
            key = operation, Traced, id(other)
        else:
            return operation(self, other)
        found = self.results.get(key)
        if found is None:
            EFFORT.spend(FORM)
            found = self.results[key] = operation(self, other)
            self.guards.others.append(other)
        return found

    return cast("Operation", remembered)


class Guarded(Traced):
    """A size whose comparisons are remembered in ``guards``, as are those of all that is computed from it.

    A size that only remembers what it is may stand on either side: Python asks the subclass first.
    """

    __slots__ = ("guards", "results")

    def __init__(self, value: int, formula: Polynomial, guards: Guards) -> None:
        super().__init__(value, formula)
        self.guards = guards
        self.results: dict[tuple[object, ...], Any] = {}

    def _made(self, value: int, formula: Polynomial) -> Guarded:
        numbers = self.guards.numbers
        if formula not in numbers:
            numbers[formula] = Guarded(value, formula, self.guards)
        return numbers[formula]

    __add__ = __radd__ = once(Traced.__add__)
    __mul__ = __rmul__ = once(Traced.__mul__)
    __sub__, __rsub__ = once(Traced.__sub__), once(Traced.__rsub__)
    __truediv__ = once(Traced.__truediv__)
    __floordiv__ = once(Traced.__floordiv__)
    __rfloordiv__ = __rtruediv__ = once(Traced.__rfloordiv__)
    minimum = once(Traced.minimum)

    @property
    def whole(self) -> Any:
        """Itself: what is decided by it is remembered."""
        return self if self.guards.open else self.value

    def _less(self, other: Traced | int) -> tuple[Polynomial, int]:
        return self.formula - formula_of(other), self.value - int_of(other)

    @once
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Traced):
            return NotImplemented
        difference, value = self._less(other)
        return self.guards.decide(difference, EQUAL, value)

    @once
    def __lt__(self, other: Traced | int) -> bool:
        difference, value = self._less(other)
        return self.guards.decide(difference, LESS, value)

    @once
    def __gt__(self, other: Traced | int) -> bool:
        difference, value = self._less(other)
        return self.guards.decide(-difference, LESS, -value)

    def __le__(self, other: Traced | int) -> bool:
        return not self > other

    def __ge__(self, other: Traced | int) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    @once
    def __mod__(self, other: int) -> Traced | int:
        if not self.guards.open:
            return self.value % other
        return self - self // other * other

    def __rmod__(self, other: int) -> Traced:
        return other - other // self * self

    def __index__(self) -> int:
        """The int that it is here: nowhere else does the same hold."""
        self.guards.decide(self.formula - self.value, EQUAL, 0)
        return self.value

    __int__ = __index__

    def __hash__(self) -> int:
        """As of the int, since an equal one may be looked for among ints."""
        return hash(self.__index__())


def guarded(letter: str, value: int, guards: Guards) -> Guarded:
    """A size that goes by this letter."""
    return guards.numbers.setdefault(symbol(letter), Guarded(value, symbol(letter), guards))


def int_of(number: Traced | int) -> int:
    """The int that a number is here."""
    return number.value if isinstance(number, Traced) else int(number)
