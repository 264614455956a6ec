"""Steps from how tfcalc counts to how others do, tried in every combination, the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Generic, TypeVar

from tfcalc.analysis.why.given import PARAMS, SIZE, NumberReading, WrittenNumber
from tfcalc.named_tuple import NamedTuple

C = TypeVar("C", bound=tuple[Any, ...])

ONE = Fraction(1)


class State(NamedTuple, Generic[C]):
    """A number as the sum of its ``cells``, times ``factor``. A cell is what of the model is alike to every step."""

    cells: Mapping[C, int]
    factor: Fraction = ONE

    @property
    def value(self) -> Fraction:
        """The number."""
        total = sum(self.cells.values())
        return Fraction(total) if self.factor == 1 else total * self.factor

    def without(self, drops: Callable[[C], bool]) -> State[C] | None:
        """Return the state without some cells; None where there are none of them, or no others."""
        kept = {cell: size for cell, size in self.cells.items() if not drops(cell)}
        return self._replace(cells=kept) if kept and len(kept) < len(self.cells) else None

    def only(self, keeps: Callable[[C], bool]) -> State[C] | None:
        """Return the state with these cells alone; None where that is nothing or all."""
        return self.without(lambda cell: not keeps(cell))

    def plus(self, cells: Mapping[C, int]) -> State[C] | None:
        """Return the state with more cells; None where they are nothing."""
        if not any(cells.values()):
            return None
        return self._replace(cells={**self.cells, **{cell: self.cells.get(cell, 0) + n for cell, n in cells.items()}})

    def changed(self, size: Callable[[C, int], int]) -> State[C] | None:
        """Return the state with other sizes; None where none changes."""
        made = {cell: size(cell, count) for cell, count in self.cells.items()}
        return self._replace(cells=made) if made != self.cells else None

    def times(self, factor: Fraction | int) -> State[C]:
        """Return the state times ``factor``."""
        return self._replace(factor=self.factor * factor)


Change = Callable[[State[C]], State[C] | None]


class CountingStep(NamedTuple, Generic[C]):
    """One departure from how tfcalc counts.

    Attributes:
        name: its id.
        words: what was done, in a few words.
        cost: how far it departs; what is common is near 1, what is rare is more.
        change: what it does to the number; None where it has no effect.
        group: of the steps of one group at most one is taken; "" for none.
        flags: the options of tfcalc that print it so, "" where there are none.
    """

    name: str
    words: str
    cost: float
    change: Change[C]
    group: str = ""
    flags: str = ""


class Start(NamedTuple, Generic[C]):
    """A number that steps start from: ``what`` it is, its ``state`` and unit, the command that prints it.

    ``rare`` is what it costs to start from here. The ``words`` say in what it departs, "" where it does not.
    """

    name: str
    what: str
    words: str
    state: State[C]
    command: str
    cost: float = 0.0
    unit: str = PARAMS
    deep: int = 9
    """At most this number of steps from here."""
    is_part: bool = False
    """Whether it is one part of the model by itself."""
    composed: str = ""
    """What the number is the sum or the product of, where that is said: ``32 x 218,112,000 + 4,096``."""


class Taken(NamedTuple):
    """A step that was taken: what it changed the number by, as arithmetic."""

    name: str
    words: str
    arithmetic: str
    flags: str


class Combination(NamedTuple):
    """A number that conventions give: its exact ``value``, the steps from its start, what they cost together."""

    value: Fraction
    start: Start[Any]
    taken: tuple[Taken | tuple[CountingStep[Any], State[Any]], ...]
    """Steps with the number after them; in words once they are :func:`~tfcalc.analysis.why.search.written`."""
    cost: float
    shown: Fraction
    """The value in the unit that is written: another one than ``value`` where GiB are called GB."""


LEVELS = (1.5, 2.75, 4.5)
"""How far combinations may depart, one after the other; the first at which any gives the number is the last."""
BEYOND = 0.5
"""How much further than the simplest that gives the number those may depart that are listed beside it."""
AS_SIMPLE = 0.5
"""How much further a combination may depart that is named beside another that gives the same value."""
BEARS = {1: 1.5, 2: 1.5, 3: 2.25, 4: 2.5, 5: 4.0}
"""How far a combination may depart for a number of so many figures: few figures fit many combinations by chance."""
EXACT = LEVELS[-1]
MOST_STEPS = 4


class Match(NamedTuple):
    """A combination that gives the number, read so; ``others`` give the same value and are about as simple."""

    combination: Combination
    reading: NumberReading
    others: tuple[Combination, ...] = ()

    @property
    def cost(self) -> float:
        """Cost of the combination and of the reading."""
        return self.combination.cost + self.reading.cost


class SearchSpace(NamedTuple):
    """The numbers to start from, and the steps that may be taken from each, in their order."""

    starts: Sequence[Start[Any]]
    steps: Sequence[CountingStep[Any]]

    def dearer(self, by: float) -> SearchSpace:
        """Return the space with each start further away by this."""
        return self._replace(starts=[start._replace(cost=start.cost + by) for start in self.starts])


def bears(reading: NumberReading) -> float:
    """Return the largest departure of a combination for which this reading is accepted."""
    return EXACT if reading.low == reading.high else BEARS.get(reading.figures, EXACT)


def matches(given: WrittenNumber, questions: Sequence[SearchSpace]) -> list[Match]:
    """The combinations that give the number, the simplest and then the nearest first."""
    most = max(bears(reading) for reading in given.readings)
    for level in (min(level, most) for level in LEVELS):
        found = _found(given, questions, level)
        if found:
            furthest = min(match.cost for match in found) + BEYOND
            if furthest > level:
                found = _found(given, questions, furthest)
            near = (one for one in found if one.cost <= furthest)
            return sorted(_distinct(near), key=lambda match: _order(given, match))
        if level == most:
            break
    return []


def _found(given: WrittenNumber, questions: Sequence[SearchSpace], level: float) -> list[Match]:
    """Return what gives the number within ``level``."""
    found = list[Match]()
    for combination in _all(given, questions, level):
        reading = given.reading(combination.shown) if given.about(float(combination.shown)) else None
        if reading is not None and combination.cost + reading.cost <= min(level, bears(reading)):
            found.append(Match(combination, reading))
    return found


def nearest(given: WrittenNumber, questions: Sequence[SearchSpace], most: float = 1.5) -> list[Combination]:
    """The simple combinations, the nearest first, each value once; of two that are as near the simpler one."""
    found: dict[Fraction, Combination] = {}
    for combination in sorted(_all(given, questions, most), key=lambda one: one.cost):
        found.setdefault(combination.value, combination)
    return sorted(found.values(), key=lambda one: abs(one.shown - given.value) * (4 + Fraction(one.cost)))


def _order(given: WrittenNumber, match: Match) -> tuple[float, Fraction, int]:
    return match.cost, abs(match.combination.shown - given.value), len(match.combination.taken)


def _distinct(found: Iterable[Match]) -> list[Match]:
    """Return each value once, by its simplest combination, with those that are about as simple."""
    kept: dict[tuple[Fraction, str], Match] = {}
    for match in sorted(found, key=lambda one: (one.cost, len(one.combination.taken))):
        key = match.combination.value, match.combination.start.unit
        first = kept.setdefault(key, match)
        if first is not match and match.cost <= first.cost + AS_SIMPLE:
            kept[key] = first._replace(others=(*first.others, match.combination))
    return list(kept.values())


def _all(given: WrittenNumber, questions: Sequence[SearchSpace], most: float) -> Iterator[Combination]:
    """The combinations that cost at most ``most``."""
    for question in questions:
        for start in question.starts:
            if start.cost <= most:
                for combination in _from(start, start.state, question.steps, 0, (), frozenset(), start.cost, most):
                    yield from _shown(given, combination, most)


def _from(
    start: Start[Any],
    state: State[Any],
    steps: Sequence[CountingStep[Any]],
    first: int,
    taken: tuple[tuple[CountingStep[Any], State[Any]], ...],
    groups: frozenset[str],
    cost: float,
    most: float,
) -> Iterator[Combination]:
    """Yield this state, and all that steps from ``first`` on lead to."""
    value = state.value
    yield Combination(value, start, taken, cost, value)
    if len(taken) >= min(MOST_STEPS, start.deep):
        return
    for place in range(first, len(steps)):
        step = steps[place]
        if cost + step.cost > most or (step.group and step.group in groups):
            continue
        changed = step.change(state)
        if changed is not None:
            inside = groups | {step.group} if step.group else groups
            yield from _from(
                start, changed, steps, place + 1, (*taken, (step, changed)), inside, cost + step.cost, most
            )


BINARY = {SIZE: 0.0, "bytes": 0.5, "params": 1.0, "flops": 1.5}
"""What it costs to write a prefix of 1,000 for one of 1,024, as is usual of lengths; of small counts MORE."""
MORE, SMALL, MIXED = 1.0, 2, 0.5
NAMED = {1: "KiB", 2: "MiB", 3: "GiB", 4: "TiB", 5: "PiB"}


def _shown(given: WrittenNumber, combination: Combination, most: float) -> Iterator[Combination]:
    """The combination, and the same where prefixes of 1,024 and of 1,000 are confused."""
    yield combination
    unit, power = combination.start.unit, given.power
    if not power:
        return
    cost = combination.cost + BINARY[unit] + (MORE if unit not in ("bytes", SIZE) and power <= SMALL else 0.0)
    if cost > most or (given.is_binary and unit != "bytes"):
        return
    for name, words, ratio, rare in _confused(given, unit):
        if cost + rare <= most:
            taken = (*combination.taken, Taken(name, words, "", ""))
            yield combination._replace(shown=combination.shown * ratio, cost=cost + rare, taken=taken)


def _confused(given: WrittenNumber, unit: str) -> Iterator[tuple[str, str, Fraction, float]]:
    """Yield the confusions of prefixes: an id, words, the factor on the number, and what it costs more."""
    power = given.power
    binary = NAMED.get(power, f"units of 1,024^{power}")
    decimal = binary.replace("i", "")
    if unit != "bytes":
        words = f"in units of 2^{10 * power} instead of 10^{3 * power}"
        yield "binary_units", words, Fraction(1000**power, 1024**power), 0.0
    elif given.is_binary:
        yield "binary_units", f"{decimal} written as {binary}", Fraction(1024**power, 1000**power), 0.0
    else:
        yield "binary_units", f"{binary} written as {decimal}", Fraction(1000**power, 1024**power), 0.0
        if power > 1:
            smaller = NAMED.get(power - 1, "")
            words = f"1,000 {smaller} written as a {decimal}"
            yield "mixed_units", words, Fraction(1000 ** (power - 1), 1024 ** (power - 1)), MIXED


def written(combination: Combination) -> tuple[Taken, ...]:
    """The steps of a combination, each with its arithmetic."""
    before, told = combination.start.state, list[Taken]()
    for one in combination.taken:
        if isinstance(one, Taken):
            told.append(one)
        else:
            step, after = one
            told.append(Taken(step.name, step.words, _arithmetic(before, after), step.flags))
            before = after
    return tuple(told)


def _arithmetic(before: State[Any], after: State[Any]) -> str:
    """``+ 38,597,376``, or ``× 2``."""
    if before.factor != after.factor:
        ratio = after.factor / before.factor
        if ratio.numerator == 1:
            return f"÷ {ratio.denominator:,}"
        return f"× {ratio.numerator:,}" if ratio.denominator == 1 else f"× {ratio.numerator:,}/{ratio.denominator:,}"
    change = after.value - before.value
    size = abs(change)
    text = f"{int(size):,}" if size.denominator == 1 else f"{float(size):,.1f}"
    return f"{'+' if change > 0 else '−'} {text}"
