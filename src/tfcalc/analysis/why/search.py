"""The search: steps in every combination, the simplest first, until some give the number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tfcalc.analysis.why.chance import ALWAYS, LIKELY, Others
from tfcalc.analysis.why.given import Given, Reading
from tfcalc.analysis.why.step import Candidate, Root, State, Step, Taken

LEVELS = (1.5, 2.75, 4.5)
"""How far combinations may depart, one after the other; the first at which any gives the number is the last."""
BEYOND = 0.5
"""How much further than the simplest that gives the number those may depart that are listed beside it."""
AS_SIMPLE = 0.5
"""How much further a combination may depart that is named beside another that gives the same value."""
BEARS = {1: 1.5, 2: 2.0, 3: 2.75, 4: 3.5, 5: 4.0}
"""How far a combination may depart for a number of so many figures: few figures fit many combinations by chance."""
EXACT = LEVELS[-1]
MOST_STEPS = 4


class Match(NamedTuple):
    """A candidate that gives the number, read so; ``others`` give the same value and are about as simple.

    ``chance`` is the share of numbers with as many figures that something as simple would give.
    """

    candidate: Candidate
    reading: Reading
    chance: float = 0.0
    others: tuple[Candidate, ...] = ()

    @property
    def cost(self) -> float:
        """Of the candidate and of the reading."""
        return self.candidate.cost + self.reading.cost


class Question(NamedTuple):
    """What is searched: the roots, and the steps that may be taken from each, in their order."""

    roots: Sequence[Root[Any]]
    steps: Sequence[Step[Any]]

    def dearer(self, by: float) -> Question:
        """The same, each root further away by this."""
        return self._replace(roots=[root._replace(cost=root.cost + by) for root in self.roots])


def bears(reading: Reading) -> float:
    """How far a combination may depart that this reading is taken for."""
    return EXACT if reading.low == reading.high else BEARS.get(reading.figures, EXACT)


def matches(given: Given, questions: Sequence[Question]) -> list[Match]:
    """The combinations that give the number, the simplest and then the nearest first.

    What is far-fetched, and would give every second number with as many figures, is not among them.
    """
    most = max(bears(reading) for reading in given.readings)
    for level in (min(level, most) for level in LEVELS):
        found, around = _found(given, questions, level)
        if found:
            furthest = min(match.cost for match in found) + BEYOND
            if furthest > level:
                found, around = _found(given, questions, furthest)
            rated = (one._replace(chance=around.chance(one.reading, one.cost)) for one in found if one.cost <= furthest)
            telling = (one for one in rated if one.cost <= ALWAYS or one.chance < LIKELY)
            return sorted(_distinct(telling), key=lambda match: _order(given, match))
        if level == most:
            break
    return []


def _found(given: Given, questions: Sequence[Question], level: float) -> tuple[list[Match], Others]:
    """What gives the number within ``level``, and the other values that combinations within it have."""
    found, around = list[Match](), Others(given)
    for candidate in _all(given, questions, level):
        near = float(candidate.shown)
        around.add(near, candidate.cost)
        reading = given.reading(candidate.shown) if given.about(near) else None
        if reading is not None and candidate.cost + reading.cost <= min(level, bears(reading)):
            found.append(Match(candidate, reading))
    return found, around


def nearest(given: Given, questions: Sequence[Question], most: float = 1.5) -> list[Candidate]:
    """The simple candidates, the nearest first, each value once; of two that are as near the simpler one."""
    found: dict[Fraction, Candidate] = {}
    for candidate in sorted(_all(given, questions, most), key=lambda one: one.cost):
        found.setdefault(candidate.value, candidate)
    return sorted(found.values(), key=lambda one: abs(one.shown - given.value) * (4 + Fraction(one.cost)))


def _order(given: Given, match: Match) -> tuple[float, Fraction, int]:
    return match.cost, abs(match.candidate.shown - given.value), len(match.candidate.taken)


def _distinct(found: Iterable[Match]) -> list[Match]:
    """Each value once, by its simplest combination, with those that are about as simple."""
    kept: dict[tuple[Fraction, str], Match] = {}
    for match in sorted(found, key=lambda one: (one.cost, len(one.candidate.taken))):
        key = match.candidate.value, match.candidate.root.unit
        first = kept.setdefault(key, match)
        if first is not match and match.cost <= first.cost + AS_SIMPLE:
            kept[key] = first._replace(others=(*first.others, match.candidate))
    return list(kept.values())


def _all(given: Given, questions: Sequence[Question], most: float) -> Iterator[Candidate]:
    """The candidates that cost at most ``most``."""
    for question in questions:
        for root in question.roots:
            if root.cost <= most:
                for candidate in _from(root, root.state, question.steps, 0, (), frozenset(), root.cost, most):
                    yield from _shown(given, candidate, most)


def _from(
    root: Root[Any],
    state: State[Any],
    steps: Sequence[Step[Any]],
    first: int,
    taken: tuple[tuple[Step[Any], State[Any]], ...],
    groups: frozenset[str],
    cost: float,
    most: float,
) -> Iterator[Candidate]:
    """This state, and all that steps from ``first`` on lead to."""
    value = state.value
    yield Candidate(value, root, taken, cost, value)
    if len(taken) >= min(MOST_STEPS, root.deep):
        return
    for place in range(first, len(steps)):
        step = steps[place]
        if cost + step.cost > most or (step.group and step.group in groups):
            continue
        changed = step.change(state)
        if changed is not None:
            inside = groups | {step.group} if step.group else groups
            yield from _from(root, changed, steps, place + 1, (*taken, (step, changed)), inside, cost + step.cost, most)


BINARY = {"bytes": 0.5, "params": 1.0, "flops": 1.5}
"""What it costs to write a prefix of 1,000 for one of 1,024; of small numbers, where that changes little, MORE."""
MORE, SMALL, MIXED = 1.0, 2, 0.5
NAMED = {1: "KiB", 2: "MiB", 3: "GiB", 4: "TiB", 5: "PiB"}


def _shown(given: Given, candidate: Candidate, most: float) -> Iterator[Candidate]:
    """The candidate, and the same where prefixes of 1,024 and of 1,000 are confused."""
    yield candidate
    unit, power = candidate.root.unit, given.power
    if not power:
        return
    cost = candidate.cost + BINARY[unit] + (MORE if unit != "bytes" and power <= SMALL else 0.0)
    if cost > most or (given.is_binary and unit != "bytes"):
        return
    for name, words, ratio, rare in _confused(given, unit):
        if cost + rare <= most:
            taken = (*candidate.taken, Taken(name, words, "", ""))
            yield candidate._replace(shown=candidate.shown * ratio, cost=cost + rare, taken=taken)


def _confused(given: Given, unit: str) -> Iterator[tuple[str, str, Fraction, float]]:
    """How prefixes are confused: an id, words, by what that multiplies the number, and what it costs more."""
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


def written(candidate: Candidate) -> tuple[Taken, ...]:
    """The steps of a candidate, each with its arithmetic."""
    before, told = candidate.root.state, list[Taken]()
    for one in candidate.taken:
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
