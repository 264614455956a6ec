"""Integers that carry the closed form they were computed by, and may record every comparison made with them.

So one run at one size gives a closed form (:class:`Traced`), and the conditions under which another size takes the same
branches (:class:`Guarded`, :class:`Guards`), like guards in a tracing compiler (torch.fx's ShapeEnv).

What such a run may take is limited by counting, not by seconds, so that any machine refuses the same questions. A unit
is one closed form computed on the way (about 20 µs); an operation of a running model is three units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar, cast

from tfcalc.core.number import Num, minimum
from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.errors import UsageError

OPERATION, FORM = 3, 1


class Spent(Exception):
    """The limit is reached."""


class Effort:
    """Units ``spent`` since the program began, and the total at which it stops (``most``)."""

    def __init__(self) -> None:
        self.spent = 0
        self.most = inf

    def spend(self, units: int = OPERATION) -> None:
        """Count these units. Raises Spent beyond the limit."""
        self.spent += units
        if self.spent > self.most:
            raise Spent


EFFORT = Effort()


@contextmanager
def at_most(units: float, fact: str, remedy: str) -> Iterator[None]:
    """Limit the units spent in the block. Raises UsageError, with the fact and the remedy, beyond them."""
    before = EFFORT.most
    EFFORT.most = min(before, EFFORT.spent + units)
    try:
        yield
    except Spent:
        if EFFORT.most == before:
            raise
        raise UsageError(fact, remedy) from None
    finally:
        EFFORT.most = before


def ends_within(units: float, work: Callable[[], object]) -> bool:
    """Do what may be left undone; return whether it ended before these units were spent."""
    before = EFFORT.most
    EFFORT.most = min(before, EFFORT.spent + units)
    try:
        work()
    except Spent:
        if EFFORT.most == before:
            raise
        return False
    finally:
        EFFORT.most = before
    return True


class Traced:
    """An int with its closed form; operations apply to both, comparisons to the ints.

    One evaluation gives value and formula, and branches on the way (whether heads share keys, which tensor is the
    largest) are decided by the ints.

    >>> h, f = traced("h", 512), traced("f", 2048)
    >>> number = 2 * h * f + h
    >>> number.value, number.formula
    (2097664, 2*f*h + h)
    >>> f > h, f == 4 * h
    (True, True)
    """

    __slots__ = ("formula", "value")

    def __init__(self, value: int, formula: Polynomial) -> None:
        self.value = value
        self.formula = formula

    def _derived(self, value: int, formula: Polynomial) -> Traced:
        """Return a number that was computed from this one."""
        return Traced(value, formula)

    @property
    def whole(self) -> int:
        """The int, for comparisons and branches."""
        return self.value

    @property
    def free_symbols(self) -> frozenset[str]:
        """The letters of the formula."""
        letters: frozenset[str] = getattr(self.formula, "free_symbols", frozenset())
        return letters

    def __add__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._derived(self.value + value, self.formula + formula)

    def __mul__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._derived(self.value * value, self.formula * formula)

    def __neg__(self) -> Traced:
        return self * -1

    def __sub__(self, other: Traced | int) -> Traced:
        return self.__add__(other * -1)

    def __rsub__(self, other: Traced | int) -> Traced:
        return (-self).__add__(other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Traced | int) -> Traced:
        """Divide; the caller knows that the division is exact."""
        value, formula = _both(other)
        return self._derived(self.value // value, _even(self.formula, formula))

    def __floordiv__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._derived(self.value // value, self.formula // formula)

    def __rfloordiv__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._derived(value // self.value, formula // self.formula)

    __rtruediv__ = __rfloordiv__

    def __mod__(self, other: int) -> Traced | int:
        return self.value % other

    def minimum(self, other: Traced | int) -> Traced:
        """Return the smaller of the two; the formula has both, unless their difference is a number."""
        if isinstance(other, Traced) and type(other) is not Traced and type(self) is Traced:
            return other.minimum(self)  # a Guarded number, whose result must be Guarded
        value, formula = _both(other)
        return self._derived(min(self.value, value), minimum(self.formula, formula))

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Traced) else other)

    def __lt__(self, other: Traced | int) -> bool:
        return self.value < _both(other)[0]

    def __gt__(self, other: Traced | int) -> bool:
        return self.value > _both(other)[0]

    def __le__(self, other: Traced | int) -> bool:
        return self.value <= _both(other)[0]

    def __ge__(self, other: Traced | int) -> bool:
        return self.value >= _both(other)[0]

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"{self.value} = {self.formula!r}"

    def __format__(self, spec: str) -> str:
        """Format like the int, so that an error message shows ``4,096`` for any kind of number.

        >>> f"{traced('l', 4096):,} tokens"
        '4,096 tokens'
        """
        return format(self.value, spec)


def traced(letter: str, value: int) -> Traced:
    """Return the size that has this letter in closed forms."""
    return Traced(value, symbol(letter))


def value_of(number: Any) -> int:
    """Return the int of a number; of a closed form only if it has no letters.

    >>> value_of(traced("l", 200) // 32), value_of(7)
    (6, 7)
    """
    if isinstance(number, int):
        return number
    if isinstance(number, Polynomial) and not number.free_symbols:
        return number.terms.get((), 0)
    return number.whole if isinstance(number, Traced) else int(number)


def known(number: object) -> int | None:
    """Return the int of a size; None for closed forms and arrays.

    >>> known(traced("l", 200)), known(7), known(symbol("l"))
    (200, 7, None)
    """
    if isinstance(number, int):
        return number
    return number.whole if isinstance(number, Traced) else None


def formula_of(number: Any) -> Polynomial:
    """Return the closed form of a number; of an int, the constant."""
    return number.formula if isinstance(number, Traced) else Polynomial({(): number})


def _even(whole: Polynomial, part: Polynomial | int) -> Polynomial:
    """Return the closed form of an exact division; with a floor if the form does not show that it is exact."""
    if isinstance(part, int) or len(part.terms) != 1:
        return whole // part
    (factor,) = part.terms.values()
    if any(coefficient % factor for coefficient in whole.terms.values()):
        return whole // part
    return whole / part


def _both(other: Traced | int) -> tuple[int, Polynomial | int]:
    return (other.value, other.formula) if isinstance(other, Traced) else (other, other)


EQUAL, LESS = "= 0", "< 0"


class Guards:
    """Recorded decisions: of each closed form that was compared, whether it was 0 (or below 0).

    Sizes at which all of these come out the same take the same branches, so the closed forms of the run hold there.

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
        """Every number by its closed form, so that equal numbers are one object and ``once`` may compare identities."""
        self.open = True
        """True while decisions are recorded; once closed, numbers carry their closed forms only."""
        self.others: list[object] = []
        """Operands of ``once``, whose ``id`` is part of its keys: without a reference here an id could be reused."""

    def decide(self, difference: Polynomial, relation: str, value: int) -> bool:
        """Return whether the ``difference``, which is ``value`` here, satisfies the relation; record the answer.

        Not recorded is an answer that holds at all sizes.
        """
        outcome = value == 0 if relation == EQUAL else value < 0
        if self.open and isinstance(difference, Polynomial) and difference.free_symbols:
            factors = difference.terms.values()
            # sizes are at least 1, so a sum whose coefficients all have one sign has that sign everywhere
            if not all(factor > 0 for factor in factors) and not all(factor < 0 for factor in factors):
                self.decided[difference, relation] = outcome
        return outcome

    def close(self) -> None:
        """Record no further decisions."""
        self.open = False

    def hold_at(self, sizes: Mapping[str, int]) -> bool:
        """Return whether all decisions are the same at one point; False where a number would be divided by 0.

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
        """Return whether all decisions are the same at these points: a bool, or an array of bools."""
        same: Any = True
        for (difference, relation), outcome in self.decided.items():
            value = difference.at(points)
            outcome_there = value == 0 if relation == EQUAL else value < 0
            same = same & (outcome_there == outcome)
        return same


Operation = TypeVar("Operation", bound=Callable[..., Any])


def once(operation: Operation) -> Operation:
    """Cache an operation of two numbers: a model has few sizes, and computes with the same ones many times."""

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
    """A Traced size whose comparisons are recorded in ``guards``, as are those of all numbers computed from it.

    Mixed with a plain Traced number on either side the result is Guarded: Python asks the subclass first.
    """

    __slots__ = ("guards", "results")

    def __init__(self, value: int, formula: Polynomial, guards: Guards) -> None:
        super().__init__(value, formula)
        self.guards = guards
        self.results: dict[tuple[object, ...], Any] = {}

    def _derived(self, value: int, formula: Polynomial) -> Guarded:
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
        """The number itself while decisions are recorded, then its int."""
        return self if self.guards.open else self.value

    def _difference(self, other: Traced | int) -> tuple[Polynomial, int]:
        return self.formula - formula_of(other), self.value - int_of(other)

    @once
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | Traced):
            return NotImplemented
        difference, value = self._difference(other)
        return self.guards.decide(difference, EQUAL, value)

    @once
    def __lt__(self, other: Traced | int) -> bool:
        difference, value = self._difference(other)
        return self.guards.decide(difference, LESS, value)

    @once
    def __gt__(self, other: Traced | int) -> bool:
        difference, value = self._difference(other)
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

    def note_exact(self) -> None:
        """Record that whatever follows holds for this very value only."""
        self.guards.decide(self.formula - self.value, EQUAL, 0)

    def __index__(self) -> int:
        """Return the int, and record that whatever it is used for holds for this very value only."""
        self.note_exact()
        return self.value

    __int__ = __index__

    def __hash__(self) -> int:
        """Hash like the int, as equal ints are looked up with it in dicts and sets."""
        return hash(self.__index__())


def guarded(letter: str, value: int, guards: Guards) -> Guarded:
    """Return the size that has this letter in closed forms."""
    return guards.numbers.setdefault(symbol(letter), Guarded(value, symbol(letter), guards))


def int_of(number: Traced | int) -> int:
    """Return the int of a number, without recording a decision."""
    return number.value if isinstance(number, Traced) else int(number)
