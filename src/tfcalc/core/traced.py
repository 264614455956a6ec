"""A number that remembers the closed form it came from."""

from __future__ import annotations

from typing import Any

from tfcalc.core.number import minimum
from tfcalc.core.polynomial import Polynomial, symbol


class Traced:
    """An int and its closed form, which every operation takes along; comparisons are those of the ints.

    One evaluation gives the value and the formula of everything, and what is decided on the way (whether heads share
    keys, which tensor is the largest) is decided by the numbers.

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

    def _made(self, value: int, formula: Polynomial) -> Traced:
        """A number that was computed from this one."""
        return Traced(value, formula)

    @property
    def whole(self) -> int:
        """The int, to decide by."""
        return self.value

    @property
    def free_symbols(self) -> frozenset[str]:
        """The letters of the formula."""
        found: frozenset[str] = getattr(self.formula, "free_symbols", frozenset())
        return found

    def __add__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._made(self.value + value, self.formula + formula)

    def __mul__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._made(self.value * value, self.formula * formula)

    def __neg__(self) -> Traced:
        return self * -1

    def __sub__(self, other: Traced | int) -> Traced:
        return self.__add__(other * -1)

    def __rsub__(self, other: Traced | int) -> Traced:
        return (-self).__add__(other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, other: Traced | int) -> Traced:
        """What is known to come out even."""
        value, formula = _both(other)
        return self._made(self.value // value, _even(self.formula, formula))

    def __floordiv__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._made(self.value // value, self.formula // formula)

    def __rfloordiv__(self, other: Traced | int) -> Traced:
        value, formula = _both(other)
        return self._made(value // self.value, formula // self.formula)

    __rtruediv__ = __rfloordiv__

    def __mod__(self, other: int) -> Traced | int:
        return self.value % other

    def minimum(self, other: Traced | int) -> Traced:
        """The smaller of the two; the formula keeps both, unless their difference is a number."""
        if isinstance(other, Traced) and type(other) is not Traced and type(self) is Traced:
            return other.minimum(self)  # which remembers more
        value, formula = _both(other)
        return self._made(min(self.value, value), minimum(self.formula, formula))

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
        """As the int is written in a sentence: a refusal says ``4,096``, whatever remembers it.

        >>> f"{traced('l', 4096):,} tokens"
        '4,096 tokens'
        """
        return format(self.value, spec)


def traced(letter: str, value: int) -> Traced:
    """A size that goes by this letter."""
    return Traced(value, symbol(letter))


def value_of(number: Any) -> int:
    """The int; that of a closed form only where no letter stands in it.

    >>> value_of(traced("l", 200) // 32), value_of(7)
    (6, 7)
    """
    if isinstance(number, int):
        return number
    if isinstance(number, Polynomial) and not number.free_symbols:
        return number.terms.get((), 0)
    return number.whole if isinstance(number, Traced) else int(number)


def known(number: object) -> int | None:
    """The int that a size is; None where letters or arrays stand for it.

    >>> known(traced("l", 200)), known(7), known(symbol("l"))
    (200, 7, None)
    """
    if isinstance(number, int):
        return number
    return number.whole if isinstance(number, Traced) else None


def formula_of(number: Any) -> Polynomial:
    """The closed form; a plain number's is itself."""
    return number.formula if isinstance(number, Traced) else Polynomial({(): number})


def _even(whole: Polynomial, part: Polynomial | int) -> Polynomial:
    """The closed form of a division that comes out even; where it is not seen to, that of its floor."""
    if isinstance(part, int) or len(part.terms) != 1:
        return whole // part
    (factor,) = part.terms.values()
    if any(each % factor for each in whole.terms.values()):
        return whole // part
    return whole / part


def _both(other: Traced | int) -> tuple[int, Polynomial | int]:
    return (other.value, other.formula) if isinstance(other, Traced) else (other, other)
