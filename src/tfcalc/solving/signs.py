"""The signs of a difference at all whole numbers: of a polynomial, of a closed form, of what can only be evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil, comb, floor, lcm

from tfcalc.core.polynomial import Atom, Floor, Minimum, Polynomial, letters_of
from tfcalc.errors import TfcalcError
from tfcalc.named_tuple import NamedTuple
from tfcalc.search.largest import largest


class SignInterval(NamedTuple):
    """The whole numbers from ``first`` to ``last``, at each of which there is the same ``sign``: -1, 0 or 1."""

    first: int
    last: int
    sign: int


def intervals(factors: Sequence[int], first: int, last: int) -> list[SignInterval]:
    """The signs of a polynomial on the whole numbers from ``first`` to ``last``; its factors begin with the constant.

    >>> [tuple(each) for each in intervals([-12, 1, 1], 1, 10)]  # k² + k - 12 = (k - 3)(k + 4)
    [(1, 2, -1), (3, 3, 0), (4, 10, 1)]
    """
    factors = _trimmed(factors)
    if first > last:
        return []
    if len(factors) <= 1:
        return [SignInterval(first, last, _sign(factors[0] if factors else 0))]

    def sign(k: int) -> int:
        return _sign(value(factors, k))

    if first == last:
        return [SignInterval(first, last, sign(first))]
    turns = intervals(_difference(factors), first, last - 1)
    return merged(each for turn in turns for each in monotone(sign, turn.first, turn.last + 1))


def monotone(sign: Callable[[int], int], first: int, last: int) -> list[SignInterval]:
    """The signs of a function that only rises, or only falls, from ``first`` to ``last``."""
    found = []
    while first <= last:
        here, low, high = sign(first), first, last
        if sign(last) == here:
            low = last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if sign(middle) == here else (low, middle)
        found.append(SignInterval(first, low, here))
        first = low + 1
    return found


def value(factors: Sequence[int], k: int) -> int:
    """The polynomial's value."""
    found = 0
    for factor in reversed(factors):
        found = found * k + factor
    return found


def merged(found: Iterable[SignInterval]) -> list[SignInterval]:
    """Runs that touch or overlap and have the same sign become one."""
    together: list[SignInterval] = []
    for interval in found:
        before = together[-1] if together else None
        if before and before.last >= interval.last:
            continue
        if before and before.sign == interval.sign:
            together[-1] = before._replace(last=interval.last)
        else:
            together.append(interval._replace(first=max(interval.first, before.last + 1)) if before else interval)
    return together


def _difference(factors: Sequence[int]) -> list[int]:
    """The factors of p(k + 1) - p(k)."""
    degree = len(factors) - 1
    return [sum(factors[n] * comb(n, power) for n in range(power + 1, degree + 1)) for power in range(degree)]


def _trimmed(factors: Sequence[int]) -> list[int]:
    found = list(factors)
    while found and not found[-1]:
        found.pop()
    return found


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


MOST_TRIED = 5_000
"""Sizes that are tried one by one."""
MOST_CLASSES = 512
"""Rests by which sizes are told apart."""
HIGHEST = 48
"""Degree."""

Line = dict[int, Fraction]
"""A polynomial in one size: its factors by their powers, which may be negative."""


class NoForm(Exception):
    """The signs do not follow from the closed form."""


class Alternates(Exception):
    """The sign turns at every ``period`` sizes, for more of them than are distinguished.

    ``last`` is the last size whose sign is.
    """

    def __init__(self, last: int, period: int) -> None:
        super().__init__(last, period)
        self.last, self.period = last, period


def signs(
    form: Polynomial,
    letter: str,
    values: Mapping[str, int],
    step: int,
    first: int,
    last: int,
    at: Callable[[int], Fraction],
) -> list[SignInterval]:
    """The signs of a closed form where the size of this ``letter`` is k·``step``, for k from ``first`` to ``last``.

    ``values`` are those of all other letters, and ``at`` the form's value for a k. Raises NoForm, and Alternates.
    """
    cuts = {first, last + 1}
    for atom in _minima(form, letter):
        difference = _exact(_Bounds(letter, values, step).both(atom.one - atom.other))
        cuts |= {interval.first for interval in intervals(_whole(difference, step), first, last)}
    edges = sorted(cuts)
    found: list[SignInterval] = []
    period = _period(form, letter, values)
    for edge, behind in pairwise(edges):
        if period is not None:
            found += _by_classes(form, letter, values, step, edge, behind - 1, period, at)
            continue
        low, high = _Bounds(letter, values, edge * step).both(form)
        below, above = (intervals(_whole(line, step), edge, behind - 1) for line in _cleared(low, high))
        found += below if low == high else _between(below, above, at)
    return merged(found)


def _by_classes(
    form: Polynomial,
    letter: str,
    values: Mapping[str, int],
    step: int,
    first: int,
    last: int,
    period: int,
    at: Callable[[int], Fraction],
) -> list[SignInterval]:
    """The signs on the sizes j·period + remainder for each remainder, put together."""
    classes = []
    for begin in range(first, min(first + period, last + 1)):
        line = _Bounds(letter, values, first * step, (begin * step, period * step)).both(form)[0]
        its = intervals(_whole(_cleared(line)[0], 1), 0, (last - begin) // period)
        classes.append(
            [
                SignInterval(begin + interval.first * period, begin + interval.last * period, interval.sign)
                for interval in its
            ]
        )
    if len(classes) == 1 and period == 1:
        return classes[0]
    # between two places where some class has another sign, each has one
    edges = sorted(
        {first, last + 1} | {place for its in classes for interval in its for place in _around(interval, first, last)}
    )
    places, found, tried = [0] * len(classes), list[SignInterval](), 0
    for edge, behind in pairwise(edges):
        seen = set()
        for number, its in enumerate(classes):
            while its[places[number]].last < edge and places[number] + 1 < len(its):
                places[number] += 1
            interval = its[places[number]]
            if interval.last >= edge and interval.first < behind:
                seen.add(interval.sign)
        if len(seen) == 1:
            found.append(SignInterval(edge, behind - 1, seen.pop()))
            continue
        if behind - edge > MOST_TRIED - tried:
            raise Alternates(edge + MOST_TRIED - tried - 1, period)
        tried += behind - edge
        found += [SignInterval(k, k, (value > 0) - (value < 0)) for k in range(edge, behind) for value in (at(k),)]
    return found


def _around(interval: SignInterval, first: int, last: int) -> tuple[int, ...]:
    """Places where the signs of a class may change."""
    return tuple(place for place in (interval.first, interval.last + 1) if first <= place <= last)


def _period(form: Polynomial, letter: str, values: Mapping[str, int]) -> int | None:
    """After how many sizes all rests under floors come again; None where these are too many, or not known."""
    period = 1
    for powers in form.terms:
        for atom, _ in powers:
            if isinstance(atom, str) or letter not in letters_of(atom):
                continue
            inside = [part for part in atom if isinstance(part, Polynomial)]
            under = [1]
            if isinstance(atom, Floor):
                inside, divisor = [atom.dividend], atom.divisor
                if isinstance(divisor, Polynomial):
                    if letter in divisor.free_symbols:
                        return None
                    divisor = int(divisor.at(values))
                if divisor < 1 or any(power < 0 for each in atom.dividend.terms for _, power in each):
                    return None
                under = [divisor]
            for part in inside:
                its = _period(part, letter, values)
                if its is None:
                    return None
                period = lcm(period, its * under[0])
            if period > MOST_CLASSES:
                return None
    return period


class _Bounds:
    """A closed form as its lower and its upper bound, with the minima that hold around a size ``near``.

    On a class of sizes, begin + j·period, it is a polynomial in j, and both bounds are the same.
    """

    def __init__(
        self, letter: str, values: Mapping[str, int], near: int, of_class: tuple[int, int] | None = None
    ) -> None:
        self.letter, self.values, self.of_class = letter, values, of_class
        self.here = {**values, letter: near}
        self.size = Line({1: Fraction(1)})
        if of_class is not None:
            begin, period = of_class
            self.size = Line({0: Fraction(begin), 1: Fraction(period)})

    def both(self, form: Polynomial) -> tuple[Line, Line]:
        low, high = Line(), Line()
        for powers, factor in form.terms.items():
            least, most = Line({0: Fraction(factor)}), Line({0: Fraction(factor)})
            if factor < 0:
                least, most = most, least
            known = Line({0: Fraction(1)})
            bounded: tuple[Line, Line] | None = None
            for atom, power in powers:
                its = self.atom(atom)
                if its[0] == its[1]:
                    known = _times(known, _power(its[0], power))
                elif bounded is None and power == 1:
                    bounded = its
                else:
                    raise NoForm
            if bounded is None:
                least = most = _times(known, Line({0: Fraction(factor)}))
            else:
                if any(each < 0 for each in known.values()):
                    raise NoForm
                ends = [_times(_times(known, end), Line({0: Fraction(factor)})) for end in bounded]
                least, most = ends if factor > 0 else reversed(ends)
            low, high = _plus(low, least), _plus(high, most)
        return low, high

    def atom(self, atom: Atom) -> tuple[Line, Line]:
        if isinstance(atom, str):
            line = self.size if atom == self.letter else Line({0: Fraction(self.values[atom])})
            return line, line
        if self.letter not in letters_of(atom):
            number = Line({0: Fraction(Polynomial({((atom, 1),): 1}).at(self.values))})
            return number, number
        if isinstance(atom, Minimum):
            one, other = (each.at(self.here) for each in (atom.one, atom.other))
            return self.both(atom.one if one <= other else atom.other)
        return self.floor(atom)

    def floor(self, atom: Floor) -> tuple[Line, Line]:
        divisor = atom.divisor
        if isinstance(divisor, Polynomial):
            if self.letter in divisor.free_symbols:
                raise NoForm
            divisor = int(divisor.at(self.values))
        if divisor < 1:
            raise NoForm
        low, high = self.both(atom.dividend)
        if self.of_class is not None:
            rest = low.get(0, Fraction(0)) % divisor
            exact = _times(_plus(low, Line({0: -rest})), Line({0: Fraction(1, divisor)}))
            return exact, exact
        under = Line({0: Fraction(1, divisor)})
        return _plus(_times(low, under), Line({0: Fraction(1 - divisor, divisor)})), _times(high, under)


def _minima(form: Polynomial, letter: str) -> Iterator[Minimum]:
    """Yield the minima that contain the letter, those under floors included.

    Raise NoForm where one is inside of another.
    """
    for powers in form.terms:
        for atom, _ in powers:
            if isinstance(atom, str) or letter not in letters_of(atom):
                continue
            inside = [part for part in atom if isinstance(part, Polynomial)]
            deeper = [minimum for part in inside for minimum in _minima(part, letter)]
            if isinstance(atom, Minimum):
                if deeper:
                    raise NoForm
                yield atom
            yield from deeper


def _between(below: list[SignInterval], above: list[SignInterval], at: Callable[[int], Fraction]) -> list[SignInterval]:
    """The signs of what is at least one line and at most another."""
    edges = sorted({interval.first for interval in (*below, *above)} | {below[-1].last + 1})
    found, tried, low, high = list[SignInterval](), 0, iter(below), iter(above)
    under, over = next(low), next(high)
    for first, behind in pairwise(edges):
        under = under if first <= under.last else next(low)
        over = over if first <= over.last else next(high)
        if under.sign > 0 or over.sign < 0:
            found.append(SignInterval(first, behind - 1, 1 if under.sign > 0 else -1))
            continue
        tried += behind - first
        if tried > MOST_TRIED:
            raise NoForm
        values = ((k, at(k)) for k in range(first, behind))
        found += [SignInterval(k, k, (value > 0) - (value < 0)) for k, value in values]
    return found


def _exact(both: tuple[Line, Line]) -> Line:
    if both[0] != both[1]:
        raise NoForm
    return _cleared(*both)[0]


def _cleared(*lines: Line) -> list[Line]:
    """Times the power of the size that leaves none below a fraction line: sizes are above 0, so signs stay."""
    lowest = min((power for line in lines for power, factor in line.items() if factor), default=0)
    return [{power - min(lowest, 0): factor for power, factor in line.items()} for line in lines]


def _whole(line: Line, step: int) -> list[int]:
    """Whole factors of k, where the size is k·step."""
    highest = max((power for power, factor in line.items() if factor), default=0)
    if highest > HIGHEST:
        raise NoForm
    scaled = [line.get(power, Fraction(0)) * step**power for power in range(highest + 1)]
    common = lcm(*(factor.denominator for factor in scaled))
    return [int(factor * common) for factor in scaled]


def _plus(one: Line, other: Line) -> Line:
    found = {power: one.get(power, Fraction(0)) + other.get(power, Fraction(0)) for power in {*one, *other}}
    return {power: factor for power, factor in found.items() if factor}


def _times(one: Line, other: Line) -> Line:
    found = Line()
    for power, factor in one.items():
        for beside, by in other.items():
            found[power + beside] = found.get(power + beside, Fraction(0)) + factor * by
    return {power: factor for power, factor in found.items() if factor}


def _power(line: Line, power: int) -> Line:
    if power < 0:
        if len(line) != 1:
            raise NoForm
        ((exponent, factor),) = line.items()
        line, power = {-exponent: 1 / factor}, -power
    found = Line({0: Fraction(1)})
    for _ in range(power):
        found = _times(found, line)
    return found


FURTHER = (2, 8, 64)
"""How many times the first size the others are at which it is looked whether the difference rises or falls."""


class NotMonotone(Exception):
    """The difference rises and falls; ``found`` are signs that were seen on both sides of each end."""

    def __init__(self, found: list[SignInterval]) -> None:
        super().__init__(found)
        self.found = found


class Unchanged(Exception):
    """The difference is the same at all sizes that were tried."""


def searched(difference: Callable[[int], Fraction], start: int, begin: int, last: int) -> list[SignInterval]:
    """The signs for k from ``begin`` to ``last``, where the difference only rises or only falls; ``start`` is likely.

    A k at which nothing can be evaluated ends them. Raises Unchanged, NotMonotone; TfcalcError where the first has no
    value.
    """
    seen: dict[int, Fraction] = {}
    ends = [last]

    def at(k: int) -> Fraction:
        if k not in seen:
            seen[k] = difference(k)
        return seen[k]

    first = at(begin)
    rising = 0
    for k in dict.fromkeys([start, *(start * by for by in FURTHER), begin + 1, begin + 2]):
        if begin < k <= last and not rising:
            try:
                rising = (at(k) > first) - (at(k) < first)
            except TfcalcError:
                ends.append(k - 1)
    if not rising:
        raise Unchanged

    def need(place: int, rounded: Callable[[Fraction], int]) -> int:
        k = place + begin - 1
        try:
            return rounded(at(k) * rising)
        except TfcalcError:
            ends.append(k - 1)
            return BEYOND

    def reached(rounded: Callable[[Fraction], int], budget: int, near: int) -> int:
        most = min(ends) - begin + 1
        return largest(lambda place: need(place, rounded), budget, start=near - begin + 1, most=most) + begin - 1

    # of a difference that rises: first all that is below 0, then what is 0, then what is above
    below = reached(floor, -1, start)
    level = reached(ceil, 0, max(below, begin))
    reach = min(ends)
    ends_of_signs = [
        SignInterval(begin, below, -rising),
        SignInterval(below + 1, level, 0),
        SignInterval(level + 1, reach, rising),
    ]
    found = merged(interval for interval in ends_of_signs if interval.first <= interval.last)
    tried = [seen[k] * rising for k in sorted(seen) if k <= reach]
    if any(one > other for one, other in pairwise(tried)):
        raise NotMonotone(found)
    return found


BEYOND = 10**40
"""What stands for the difference where there is none."""
