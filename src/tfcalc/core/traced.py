"""Integers that carry the closed form they were computed by."""

from __future__ import annotations

from typing import Any

from tfcalc.core.number import minimum
from tfcalc.core.polynomial import Polynomial, symbol


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
