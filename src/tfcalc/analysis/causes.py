"""Why two formulas differ: parts of a model that one of them lacks, or counts another number of times.

A formula that counts some parts S not once but q times is off by (q - 1)·S. So for each likely q the sum S is found by
a division, and then the parts that add up to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

from tfcalc.core.polynomial import Polynomial, symbol
from tfcalc.expressions.expansion import Ratio
from tfcalc.report.explanation import Line

MOST_TOGETHER = 3
"""Parts that are named together."""

MOST_STEPS = 6_000
"""Of one search."""

NEIGHBOURS = 0.3
"""By how much parts are nearer that follow each other."""

ALL = "all of it"
NORM = ("γ", "β")
WITH_BIASES = (("W_Q, W_K, W_V", "b_Q, b_K, b_V"), ("W_QKV", "b_QKV"), ("W_K, W_V", "b_K, b_V"))
PROJECTED = "the projections of attention"
PROJECTIONS = ("W_Q", "W_K", "W_V", "W_O", "W_QKV")
SCORES = ("Q Kᵀ", "P V")
"""The two products of attention itself."""


class Part(NamedTuple):
    """Something that can be forgotten or counted twice: its name, its size, its lines as bits, and how far-fetched."""

    name: str
    number: Polynomial
    lines: int
    rank: float


class Times(NamedTuple):
    """How often parts were counted that are there once: a number, or a letter, or 1 by a letter, or one by another.

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
    """Parts that were counted so many times, and how far-fetched that is; ``others`` would explain it as well."""

    times: Times
    parts: tuple[Part, ...]
    cost: float
    others: tuple[tuple[Part, ...], ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether these are all the parts there are."""
        return self.parts[0].name == ALL

    @property
    def number(self) -> Polynomial:
        """What these parts are together, counted once."""
        return _sum(part.number for part in self.parts)


NEVER, TWICE = Times(Fraction(0)), Times(Fraction(2))
FRACTIONS = {(1, 2): 1.3, (2, 3): 1.85, (1, 3): 1.85, (3, 1): 1.85, (1, 4): 1.85, (4, 1): 1.85}
NUMBERS = ((NEVER, 1.0), (TWICE, 1.4), *((Times(Fraction(*each)), cost) for each, cost in FRACTIONS.items()))
LETTER, BY_LETTER = 1.5, 1.6
"""How far-fetched it is that parts were counted so many times."""


def cause_of(difference: Ratio, lines: Sequence[Line]) -> Cause | None:
    """The nearest reason for a difference (yours less what is right): the same parts all counted so many times."""
    parts = parts_of(lines)
    letters = sorted(difference.top.free_symbols)
    times = [*NUMBERS]
    times += [(Times(letter=letter), LETTER) for letter in letters]
    own = sorted({letter for part in parts for letter in part.number.free_symbols})
    times += [(Times(letter=letter, divided=True), BY_LETTER) for letter in own]
    best: Cause | None = None
    for each, cost in times:
        behind = each.sum_behind(difference)
        if behind is None or not behind.terms:
            continue
        found = _covers(behind, parts if each in (NEVER, TWICE) else [one for one in parts if one.name != PROJECTED])
        if found and (best is None or cost + _rank(found[0]) < best.cost):
            best = Cause(each, found[0], cost + _rank(found[0]), tuple(found[1:]))
    return best


def causes_of(difference: Ratio, lines: Sequence[Line]) -> tuple[Cause, ...]:
    """One reason for the whole; else one for what is missing and one for what is too much, as far as there are any."""
    whole = cause_of(difference, lines)
    if whole is not None or difference.bottom != 1:
        return () if whole is None else (whole,)
    terms = difference.top.terms.items()
    signs = [Polynomial({powers: factor for powers, factor in terms if factor * sign > 0}) for sign in (-1, 1)]
    if not all(half.terms for half in signs):
        return ()
    replaced = _replaced(-signs[0], signs[1], lines)
    if replaced is not None:
        return (replaced,)
    found = (cause_of(Ratio(half), lines) for half in signs)
    return tuple(cause for cause in found if cause is not None and cause.times in (NEVER, TWICE) and not cause.is_all)


def _replaced(missing: Polynomial, extra: Polynomial, lines: Sequence[Line]) -> Cause | None:
    """Parts that were counted with another letter in the place of one of theirs, as a for g."""
    for wrong in sorted(extra.free_symbols):
        for right in sorted(missing.free_symbols - {wrong}):
            if missing * symbol(wrong) == extra * symbol(right):
                found = _covers(missing, parts_of(lines))
                if found:
                    return Cause(Times(letter=wrong, by=right), found[0], LETTER + _rank(found[0]), tuple(found[1:]))
    return None


def parts_of(lines: Sequence[Line]) -> list[Part]:
    """Everything of an explanation that has a name: lines, parts of lines, modules, biases, norms, and all."""
    every = (1 << len(lines)) - 1
    bits = [1 << place for place in range(len(lines))]
    titles = [", ".join(line.names) for line in lines]
    found = [Part(ALL, _sum(line.formula for line in lines), every, 0.1)]
    for place, line in enumerate(lines):
        several = titles.count(titles[place]) > 1 and line.where
        found.append(Part(titles[place] + f" of {line.where}" * bool(several), line.formula, bits[place], 1.0))
        many = len(line.names)
        for some in range(1, many):
            share = Ratio.of(line.formula * some, many)
            words = {1: "one", 2: "two"}.get(some, str(some))
            if share.bottom == 1:
                found.append(
                    Part(f"{words} of {found[-1].name if some == 1 else titles[place]}", share.top, bits[place], 1.7)
                )
    found += _modules(lines, bits, every)
    found += _alike(lines, bits, titles)
    unlike: dict[tuple[Polynomial, int], Part] = {}
    for part in sorted(found, key=lambda part: part.rank):
        if part.number.terms:
            unlike.setdefault((part.number, part.lines), part)
    return list(unlike.values())


def _modules(lines: Sequence[Line], bits: list[int], every: int) -> Iterator[Part]:
    """The modules that lines are of, and those around them."""
    paths = {path for line in lines for path in _above(line.where)}
    for path in sorted(paths, key=lambda path: (path.count("."), path)):
        inside = [place for place, line in enumerate(lines) if path in _above(line.where)]
        covered = sum(bits[place] for place in inside)
        if len(inside) > 1 and covered != every:
            yield Part(path, _sum(lines[place].formula for place in inside), covered, 1.0)


def _above(path: str) -> list[str]:
    names = path.split(".") if path else []
    return [".".join(names[:end]) for end in range(1, len(names) + 1)]


def _alike(lines: Sequence[Line], bits: list[int], titles: list[str]) -> Iterator[Part]:
    """What is of one kind: the same matrix of every module, biases, norms, both, the scores."""
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
    kinds += [
        (f"the biases of {where}", 1.2, bias & frozenset(own))
        for where, own in groupby(range(len(lines)), key=lambda place: lines[place].where)
        if where
    ]
    for name, rank, inside in kinds:
        if len(inside) > 1:
            yield Part(name, _sum(lines[place].formula for place in inside), sum(bits[place] for place in inside), rank)


def _called(titles: list[str], *wanted: str) -> frozenset[int]:
    return frozenset(place for place, title in enumerate(titles) if title in wanted)


def _is_projection(line: Line) -> bool:
    """Of queries, keys and values, or what follows them: a matrix, or the product with it."""
    return all(name.removeprefix("X ") in PROJECTIONS for name in line.names)


def _is_bias(line: Line) -> bool:
    return line.names[0].startswith("b_")


def _covers(wanted: Polynomial, parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Parts without a line in common that add up to this: the nearest, then others that are as near."""
    fitting = sorted(
        (part for part in parts if _fits(part.number, wanted)), key=lambda part: -sum(part.number.terms.values())
    )
    steps, found = 0, list[tuple[Part, ...]]()

    def search(left: Polynomial, start: int, chosen: tuple[Part, ...], used: int, more: int) -> None:
        nonlocal steps
        for place in range(start, len(fitting)):
            part = fitting[place]
            steps += 1
            if steps > MOST_STEPS:
                return
            if part.lines & used or not _fits(part.number, left):
                continue
            rest = left - part.number
            if not rest.terms and more == 1:
                found.append((*chosen, part))
            elif rest.terms and more > 1:
                search(rest, place + 1, (*chosen, part), used | part.lines, more - 1)

    for together in range(1, MOST_TOGETHER + 1):
        search(wanted, 0, (), 0, together)
        if found:
            break
    found.sort(key=_rank)
    return [each for each in found if _rank(each) <= _rank(found[0])]


def _fits(number: Polynomial, inside: Polynomial) -> bool:
    return all(inside.terms.get(powers, 0) >= factor for powers, factor in number.terms.items())


def _rank(parts: tuple[Part, ...]) -> float:
    """How far-fetched they are together: less so where they follow each other, as a module and its norm."""
    lines = 0
    for part in parts:
        lines |= part.lines
    neighbours = lines // (lines & -lines) & (lines // (lines & -lines) + 1) == 0
    return sum(part.rank for part in parts) - NEIGHBOURS * (neighbours and len(parts) > 1)


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
