"""Why two formulas differ: one part of a model that is missing or extra, a factor, or a letter for another.

A formula that counts a part S not once but q times is off by (q - 1)·S. So for each likely q the sum S is found by a
division, and then the part that is as large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations, groupby
from operator import or_

from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.expressions.expansion import Ratio
from tfcalc.named_tuple import NamedTuple
from tfcalc.report.explanation import Line

ALL = "all of it"
NORM = ("γ", "β")
WITH_BIASES = (("W_Q, W_K, W_V", "b_Q, b_K, b_V"), ("W_QKV", "b_QKV"), ("W_K, W_V", "b_K, b_V"))
WITH_ONE_BIAS = (("W_O", "b_O"), ("W_1", "b_1"), ("W_2", "b_2"))
PROJECTED = "the projections of attention"
PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O", "W_QKV")
SCORES = ("Q Kᵀ", "P V")
"""The two products of attention itself."""


class CountablePart(NamedTuple):
    """Something that can be forgotten or counted twice: its name, its size, its lines as bits, and how far-fetched."""

    name: str
    number: Polynomial
    lines: int
    rank: float


class Multiplicity(NamedTuple):
    """Number of times that parts which exist once were counted: a number, a letter, 1 by a letter, or one by another.

    ``by`` is the letter that ``letter`` took the place of.
    """

    number: Fraction = Fraction(1)
    letter: str = ""
    divided: bool = False
    by: str = ""

    @property
    def text(self) -> str:
        """``0``, ``1/2``, ``a``, ``1/a``, ``a/g``."""
        if self.by:
            return f"{self.letter}/{self.by}"
        return ("1/" * self.divided + self.letter) if self.letter else str(self.number)

    def sum_behind(self, difference: Ratio) -> Polynomial | None:
        """The S of which ``difference`` is (q - 1)·S; None where there is none with whole factors above 0."""
        found = difference.times(1 / (self.number - 1)) if not self.letter else None
        if self.letter:
            divided = _by_one_less(difference.top, self.letter)
            if divided is None:
                return None
            found = Ratio.of(-divided * symbol(self.letter) if self.divided else divided, difference.bottom)
        whole = found is not None and found.bottom == 1 and all(factor > 0 for factor in found.top.terms.values())
        return found.top if found is not None and whole else None


class Cause(NamedTuple):
    """A part that was counted ``times`` times, and how far-fetched that is; ``others`` would explain it as well.

    ``forms`` are theirs where these differ, so that they are as large at these sizes alone.
    """

    times: Multiplicity
    part: CountablePart
    cost: float
    others: tuple[CountablePart, ...] = ()
    forms: tuple[Polynomial, ...] = ()

    @property
    def is_all(self) -> bool:
        """True if the part is all that there is."""
        return self.part.name == ALL


NEVER, TWICE = Multiplicity(Fraction(0)), Multiplicity(Fraction(2))
FRACTIONS = {(1, 2): 1.3, (2, 3): 1.85, (1, 3): 1.85, (3, 1): 1.85, (1, 4): 1.85, (4, 1): 1.85}
NUMBERS = ((NEVER, 1.0), (TWICE, 1.4), *((Multiplicity(Fraction(*each)), cost) for each, cost in FRACTIONS.items()))
LETTER, BY_LETTER = 1.5, 1.6
"""How far-fetched it is that parts were counted so many times."""


def cause_of(difference: Ratio, lines: Sequence[Line]) -> Cause | None:
    """Find the nearest reason for a difference (yours less what is right): a part counted q times, or a letter.

    ``None`` where there is none.
    """
    parts = parts_of(lines)
    letters = sorted(difference.top.free_symbols)
    times = [*NUMBERS]
    times += [(Multiplicity(letter=letter), LETTER) for letter in letters]
    own = sorted({letter for part in parts for letter in part.number.free_symbols})
    times += [(Multiplicity(letter=letter, divided=True), BY_LETTER) for letter in own]
    best: Cause | None = None
    for each, cost in times:
        behind = each.sum_behind(difference)
        if behind is None or not behind.terms:
            continue
        found = _as_large(behind, parts if each in (NEVER, TWICE) else [one for one in parts if one.name != PROJECTED])
        if found and (best is None or cost + found[0].rank < best.cost):
            best = Cause(each, found[0], cost + found[0].rank, tuple(found[1:]))
    return best or _replaced(difference, parts)


def causes_of(difference: Ratio, lines: Sequence[Line]) -> tuple[Cause, ...]:
    """The nearest reason for a difference, or else the few parts that are missing together; empty where neither is."""
    one = cause_of(difference, lines)
    missing = {powers: -factor for powers, factor in difference.top.terms.items()}
    if one or difference.bottom != 1 or any(factor < 0 for factor in missing.values()):
        return (one,) if one else ()
    return tuple(Cause(NEVER, part, part.rank) for part in _apart(Polynomial(missing), parts_of(lines)))


def _apart(wanted: Polynomial, parts: Sequence[CountablePart]) -> tuple[CountablePart, ...]:
    """Parts without a line in common that make up the number: as few as can be, and of these the nearest."""
    inside = [
        part
        for part in sorted(parts, key=lambda part: part.rank)
        if part.rank <= NEAR
        and all(factor <= wanted.terms.get(powers, 0) for powers, factor in part.number.terms.items())
    ][:MOST_INSIDE]
    for count in range(2, MOST_TOGETHER + 1):
        found = [
            some
            for some in combinations(inside, count)
            if sum((part.number for part in some), start=Polynomial({})) == wanted
            and sum(part.lines.bit_count() for part in some) == reduce(or_, (part.lines for part in some)).bit_count()
        ]
        if found:
            return min(found, key=lambda some: sum(part.rank for part in some))
    return ()


NEAR, MOST_INSIDE, MOST_TOGETHER = 1.0, 24, 3
"""Parts that may be missing together: how far-fetched each is, how many are tried, and how many they may be."""


def by_chance(cause: Cause, numbers: Sequence[Line], letters: Sequence[Line]) -> Cause:
    """The cause with all parts that are as large in numbers, though not in letters; itself where there are none."""
    forms = {part.name: part.number for part in parts_of(letters)}
    alike = sorted((part for part in parts_of(numbers) if part.number == cause.part.number), key=lambda part: part.rank)
    first: dict[Polynomial, CountablePart] = {}
    for part in (cause.part, *alike):
        if part.name in forms and part.rank <= MOST_FAR_FETCHED:
            first.setdefault(forms[part.name], part)
    if len(first) < 2:
        return cause
    part, *others = first.values()
    return cause._replace(part=part, others=tuple(others), forms=tuple(first))


MOST_FAR_FETCHED = 1.2
"""Of a part that is named beside another."""


def _replaced(difference: Ratio, parts: Sequence[CountablePart]) -> Cause | None:
    """Find a part that was counted with another letter in the place of one of its own, as a for g."""
    terms = difference.top.terms.items()
    missing, extra = (Polynomial({powers: abs(n) for powers, n in terms if n * sign > 0}) for sign in (-1, 1))
    if difference.bottom != 1:
        return None
    for wrong in sorted(extra.free_symbols):
        for right in sorted(missing.free_symbols - {wrong}):
            if missing * symbol(wrong) == extra * symbol(right):
                found = _as_large(missing, parts)
                if found:
                    return Cause(
                        Multiplicity(letter=wrong, by=right), found[0], LETTER + found[0].rank, tuple(found[1:])
                    )
    return None


def parts_of(lines: Sequence[Line]) -> list[CountablePart]:
    """Everything of an explanation that has a name: lines, parts of lines, modules, biases, norms, and all."""
    every = (1 << len(lines)) - 1
    bits = [1 << place for place in range(len(lines))]
    titles = [", ".join(line.names) for line in lines]
    found = [CountablePart(ALL, _sum(line.formula for line in lines), every, 0.1)]
    for place, line in enumerate(lines):
        several = titles.count(titles[place]) > 1 and line.where
        found.append(CountablePart(titles[place] + f" of {line.where}" * bool(several), line.formula, bits[place], 1.0))
        many = len(line.names)
        for some in range(1, many):
            share = Ratio.of(line.formula * some, many)
            words = {1: "one", 2: "two"}.get(some, str(some))
            if share.bottom == 1:
                found.append(
                    CountablePart(
                        f"{words} of {found[-1].name if some == 1 else titles[place]}", share.top, bits[place], 1.7
                    )
                )
    found += _modules(lines, bits, every)
    found += _alike(lines, bits, titles)
    unlike: dict[tuple[Polynomial, int], CountablePart] = {}
    for part in sorted(found, key=lambda part: part.rank):
        if part.number.terms:
            unlike.setdefault((part.number, part.lines), part)
    return list(unlike.values())


def _modules(lines: Sequence[Line], bits: list[int], every: int) -> Iterator[CountablePart]:
    """The modules that lines are of, and those around them."""
    paths = {path for line in lines for path in _above(line.where)}
    for path in sorted(paths, key=lambda path: (path.count("."), path)):
        inside = [place for place, line in enumerate(lines) if path in _above(line.where)]
        covered = sum(bits[place] for place in inside)
        if len(inside) > 1 and covered != every:
            yield CountablePart(path, _sum(lines[place].formula for place in inside), covered, 1.0)


def _above(path: str) -> list[str]:
    names = path.split(".") if path else []
    return [".".join(names[:end]) for end in range(1, len(names) + 1)]


def _alike(lines: Sequence[Line], bits: list[int], titles: list[str]) -> Iterator[CountablePart]:
    """Parts of one kind: the same matrix of every module, biases, norms, both, the scores."""
    bias = frozenset(place for place, line in enumerate(lines) if _is_bias(line))
    norm = frozenset(place for place, line in enumerate(lines) if line.names[0] in NORM)
    score = frozenset(place for place, line in enumerate(lines) if line.names[0] in SCORES)
    around = frozenset(place for place, line in enumerate(lines) if _is_projection(line))
    kinds = [
        ("the biases", 0.9, bias),
        ("the norms", 0.9, norm),
        ("the biases and norms", 0.9, bias | norm),
        ("the attention scores (Q Kᵀ and P V)", 0.6, score),
        (PROJECTED, 0.9, around),
    ]
    kinds += [(f"every {title}", 1.0, _called(titles, title)) for title in dict.fromkeys(titles)]
    kinds += [(f"{pair[0]} with biases", 1.0, _called(titles, *pair)) for pair in WITH_BIASES if pair[0] in titles]
    kinds += [(" and ".join(pair), 1.2, _called(titles, *pair)) for pair in WITH_ONE_BIAS if {*pair} <= {*titles}]
    kinds += [
        (f"the biases of {where}", 1.2, bias & frozenset(own))
        for where, own in groupby(range(len(lines)), key=lambda place: lines[place].where)
        if where
    ]
    for name, rank, inside in kinds:
        if len(inside) > 1:
            yield CountablePart(
                name, _sum(lines[place].formula for place in inside), sum(bits[place] for place in inside), rank
            )


def _called(titles: list[str], *wanted: str) -> frozenset[int]:
    return frozenset(place for place, title in enumerate(titles) if title in wanted)


def _is_projection(line: Line) -> bool:
    """Return True if it is a matrix of queries, keys, values or the output, or the product with it."""
    return all(name.removeprefix("X ") in PROJECTIONS for name in line.names)


def _is_bias(line: Line) -> bool:
    return line.names[0].startswith("b_")


def _as_large(wanted: Polynomial, parts: Sequence[CountablePart]) -> list[CountablePart]:
    """The parts of this size: the nearest, and others that are as near."""
    found = sorted((part for part in parts if part.number == wanted), key=lambda part: part.rank)
    return [part for part in found if part.rank == found[0].rank]


def _sum(numbers: Iterable[Polynomial]) -> Polynomial:
    found = Polynomial({})
    for number in numbers:
        found = found + number
    return found


def _by_one_less(number: Polynomial, letter: str) -> Polynomial | None:
    """The number divided by (x - 1), for a letter x; None where that does not come out even.

    >>> a, h = symbol("a"), symbol("h")
    >>> _by_one_less(3 * a * a * h - 3 * h, "a") == 3 * a * h + 3 * h
    True
    """
    by_power: dict[int, Polynomial] = {}
    for powers, factor in number.terms.items():
        power = next((power for atom, power in powers if atom == letter), 0)
        others = Polynomial({tuple(item for item in powers if item[0] != letter): factor})
        by_power[power] = by_power.get(power, Polynomial({})) + others
    if not by_power or len(by_power) == 1:
        return None
    lowest, carried, found = min(by_power), Polynomial({}), Polynomial({})
    for power in range(max(by_power), lowest, -1):
        carried = carried + by_power.get(power, 0)
        found = found + carried * Polynomial({((letter, power - 1),) if power != 1 else (): 1})
    return found if carried + by_power[lowest] == 0 else None


def proportion(yours: Ratio, right: Polynomial) -> Ratio | None:
    """The product of numbers and letters by which the right formula would give the other; None where none does.

    >>> l, b, h = (symbol(letter) for letter in "lbh")
    >>> proportion(Ratio(h * h + 3 * h), 2 * l * b * (h * h + 3 * h))
    Ratio(top=b^-1*l^-1, bottom=2)
    """
    if not yours.top.terms or len(yours.top.terms) != len(right.terms):
        return None
    (below, by), *_ = right.terms.items()
    inverse = Polynomial({tuple((atom, -power) for atom, power in below): 1})
    for powers, factor in yours.top.terms.items():
        found = Ratio.of(Polynomial({powers: factor}) * inverse, yours.bottom * by)
        if Ratio.of(right * found.top, found.bottom) == yours:
            return found
    return None
