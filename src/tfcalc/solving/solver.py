"""A condition solved for one size: where it holds among all whole numbers, and the sizes on both sides of each end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import inf, isqrt

from tfcalc.configs.published import HFModel
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import Spent, ends_within
from tfcalc.dimensions import LARGEST, MOST_TOKENS
from tfcalc.errors import InvalidModel, TfcalcError, TooMany, UsageError
from tfcalc.expressions import Condition, Expression, evaluate
from tfcalc.hardware import MOST_GPUS
from tfcalc.model import Model
from tfcalc.named_tuple import NamedTuple
from tfcalc.solving.closed_form import TooLarge, difference, over
from tfcalc.solving.conditions import Evaluator
from tfcalc.solving.signs import Alternates, NoForm, NotMonotone, SignInterval, Unchanged, merged, searched, signs
from tfcalc.solving.unknown import TOKENS, Domain, UnknownSize, domain

HOLDS = {"=": (0,), "<=": (-1, 0), ">=": (0, 1), "<": (-1,), ">": (1,)}
"""Signs of the left side less the right one where a comparison is true."""
PROBES = (2, 3, 10)
"""How many times the value it has now a size is at which a closed form is held against the library's answer."""
MOST_ROWS = 8
MOST_UNITS_OF_SEARCH = 100_000
"""What a search may spend where ``memory --gpu`` knows the largest size, too, by a search that takes fewer runs."""

Value = int | Fraction


class SolutionRow(NamedTuple):
    """Sizes, what each side of the condition is there, and whether it holds."""

    sizes: Mapping[str, int]
    sides: tuple[Value, ...]
    holds: bool


class Solution(NamedTuple):
    """Sizes at which a condition holds: ``ranges`` of them, their ends proven by ``rows``.

    ``crossings`` are the pairs of neighbours between which an equation that no size meets changes sides. ``forms`` are
    the closed forms of its names, where they have one. ``exhaustive`` says whether all sizes were decided, not only
    the ends. On a card ``turns`` says that beyond the largest size some may fit and others not: where free blocks of
    PyTorch's cache are of use depends on each size.
    """

    domain: Domain
    ranges: tuple[tuple[int, int], ...]
    crossings: tuple[tuple[int, int], ...]
    rows: tuple[SolutionRow, ...]
    forms: Mapping[str, Polynomial] | None
    exhaustive: bool
    intervals: tuple[tuple[SignInterval, ...], ...]
    limit: str = ""
    turns: bool = False


def sides_of(conditions: Sequence[Condition]) -> tuple[Expression, ...]:
    """Return both sides; three of a condition with two comparisons."""
    return (conditions[0].left, *(each.right for each in conditions))


class Solver:
    """One unknown of a condition."""

    def __init__(
        self,
        evaluator: Evaluator,
        conditions: Sequence[Condition],
        unknown: UnknownSize,
        forms: Mapping[str, Polynomial] | None,
    ) -> None:
        self.evaluator, self.conditions, self.unknown, self.forms = evaluator, conditions, unknown, forms
        self.sides = sides_of(conditions)
        self.now = unknown.value or 1
        self.limit = ""
        self.turns = False
        self._values: dict[int, Mapping[str, int]] = {}
        self._numbers = evaluator.numbers(unknown) if forms is not None else {}
        if forms is not None and not _letters(forms) <= {*self._numbers, unknown.letter}:
            self.forms = None  # at this depth the model has no layer of a kind that the closed forms are of

    def found(self) -> Solution:
        """Find where it holds. Raises UsageError where the unknown changes nothing, and what the library raises."""
        self.values(self.now)
        within = self._domain()
        if self.forms is not None and not self._agree(within):
            self.forms = None
        within = self._built(within)
        while True:
            try:
                every, exhaustive = self._runs(within)
            except Alternates as known:
                self.limit = f"behind it the sides change places again and again, every {known.period * within.step:,}"
                within = within._replace(last=known.last)
                continue
            ranges = _where(every, self.conditions, within)
            crossings = self._crossings(every, ranges)
            try:
                rows = tuple(self._rows(within, ranges, crossings))
                if self.forms is not None and any(high == within.size(within.last) for _, high in ranges):
                    self.values(within.size(within.last))
            except InvalidModel as error:
                last = self._last(within)
                if last >= within.last:
                    raise
                self.limit = error.message
                within = within._replace(last=last)
                continue
            if self.forms is not None and not all(self._agrees(row.sizes[self.unknown.word]) for row in rows):
                self.forms = None
                continue
            if any(row.holds != _among(row.sizes[self.unknown.word], ranges) for row in rows):
                raise self._turning()  # a search between sizes that rise and fall
            return Solution(within, ranges, crossings, rows, self.forms, exhaustive, every, self.limit, self.turns)

    def values(self, size: int) -> Mapping[str, int]:
        """Return each name's number at this size, by the library's own answers."""
        if size not in self._values:
            self._values[size] = self.evaluator.values(self.evaluator.setting.at(self.unknown, size))
        return self._values[size]

    def row(self, size: int) -> SolutionRow:
        """Return both sides at this size."""
        values = self.values(size)
        sides = tuple(evaluate(side, values) for side in self.sides)
        holds = all(
            _sign(sides[place] - sides[place + 1]) in HOLDS[each.operator] for place, each in enumerate(self.conditions)
        )
        return SolutionRow({self.unknown.word: size}, sides, holds)

    def _domain(self) -> Domain:
        """The sizes that the unknown may have."""
        owner = self.unknown.owner
        if owner == TOKENS:
            return Domain(last=MOST_TOKENS)
        if owner in ("run", "serving"):
            return Domain()
        setting, unknown = self.evaluator.setting, self.unknown

        def fits(size: int) -> str:
            try:
                other = setting.at(unknown, size)
                if owner == "training":
                    self.values(size)
                else:
                    other.model.check(other.run)
                    other.model.tree(other.run)
                    return _lost(other.model, setting.model)
            except TooMany:  # an end of the sizes, at which nothing is divided
                return ""
            except TfcalcError as error:
                return error.message
            return ""

        related = (value for value in setting.model.values().values() if isinstance(value, int))
        return domain(unknown.value, fits, related, MOST_GPUS if unknown.name == "gpus" else LARGEST)

    def _built(self, within: Domain) -> Domain:
        """The sizes as far as there is such a model at all, which is told without running it."""
        model = self.evaluator.setting.model
        if self.unknown.owner != "model" or (self.forms is not None and not within.listed):
            return within

        def is_built(k: int) -> bool:
            try:
                model.replaced(**{self.unknown.name: within.size(k)}).module()
            except TooMany as error:
                self.limit = error.message
                return False
            except TfcalcError:
                return True  # it is another's fault, and told by whoever asks
            return True

        if within.listed:
            listed = tuple(size for k, size in enumerate(within.listed, 1) if is_built(k))
            self.limit = ""
            return within._replace(listed=listed, last=len(listed)) if listed else within
        low, high = within.place(self.now), within.last + 1
        if is_built(within.last) or not is_built(low):
            self.limit = ""
            return within
        while high - low > 1:
            middle = isqrt(low * high) if high > 4 * low else (low + high) // 2
            low, high = (middle, high) if is_built(middle) else (low, middle)
        return within._replace(last=low)

    def _agree(self, within: Domain) -> bool:
        """Return whether the closed forms equal the library's answers at a few sizes, without those that cannot be."""
        assert self.forms is not None
        place = within.place(self.now)
        for k in dict.fromkeys([place, within.first, *(place * by for by in PROBES)]):
            if k > within.last:
                continue
            try:
                true = self.values(within.size(k))
            except TfcalcError:
                continue
            if dict(true) != self._by_forms(within.size(k)):
                return False
        return True

    def _agrees(self, size: int) -> bool:
        return dict(self.values(size)) == self._by_forms(size)

    def _by_forms(self, size: int) -> dict[str, int]:
        assert self.forms is not None
        at = {**self._numbers, self.unknown.letter: size}
        return {name: int(form.at(at)) for name, form in self.forms.items()}

    def _runs(self, within: Domain) -> tuple[tuple[tuple[SignInterval, ...], ...], bool]:
        """The signs of each comparison, and whether all sizes were decided."""
        if within.listed:
            ks = range(1, within.last + 1)
            by_size = [
                [SignInterval(k, k, _sign(self._difference(each, self.values(within.size(k))))) for k in ks]
                for each in self.conditions
            ]
            if len({tuple(self.values(size).items()) for size in within.listed}) == 1 and len(within.listed) > 1:
                raise self._idle(frozenset().union(*(each.names for each in self.conditions)))
            return tuple(tuple(merged(intervals)) for intervals in by_size), True
        exhaustive, found = True, []
        for each in self.conditions:
            try:
                found.append(self._by_form(each, within))
            except (NoForm, TooLarge):
                exhaustive = False
                found.append(self._by_search(each, within))
        last = min(intervals[-1].last for intervals in found)
        return tuple(
            tuple(interval._replace(last=min(interval.last, last)) for interval in intervals if interval.first <= last)
            for intervals in found
        ), exhaustive

    def _by_form(self, condition: Condition, within: Domain) -> list[SignInterval]:
        if self.forms is None:
            raise NoForm
        try:
            sides = (over(condition.left, self.forms), over(condition.right, self.forms))
        except UsageError:
            raise NoForm from None
        moved = difference(*sides)
        if moved is None:
            raise NoForm
        if self.unknown.letter not in moved.free_symbols:
            raise self._idle(condition.names)

        def at(k: int) -> Fraction:
            return Fraction(self._difference(condition, self._by_forms(within.size(k))))

        return signs(moved, self.unknown.letter, self._numbers, within.step, within.first, within.last, at)

    def _by_search(self, condition: Condition, within: Domain) -> list[SignInterval]:
        def at(k: int) -> Fraction:
            return Fraction(self._difference(condition, self.values(within.size(k))))

        if self.unknown.name == "gpus":
            return self._of_gpus(at, within, condition)
        if self.limit:  # both ends are known, and all between is as they are where they are alike
            with suppress(TfcalcError):
                first, last = at(within.first), at(within.last)
                if first != last and _sign(first) == _sign(last) != 0:
                    return [SignInterval(within.first, within.last, _sign(first))]
        found: list[SignInterval] = []
        most = MOST_UNITS_OF_SEARCH if self.evaluator.card else inf
        try:
            if ends_within(most, lambda: found.extend(searched(at, within.place(self.now), within.first, within.last))):
                return found
        except Unchanged:
            raise self._idle(condition.names) from None
        except NotMonotone as turning:
            if not self.evaluator.card:
                raise self._turning() from None
            found = turning.found
        self.turns = True
        return self._of_card(found, at, within)

    def _of_gpus(self, at: Callable[[int], Fraction], within: Domain, condition: Condition) -> list[SignInterval]:
        """The signs at 1, 2, 4, … GPUs, and each end between two of these.

        Memory falls with their number, and then rises: shards that are smaller than a row are filled up (FSDP2).
        """
        places = [within.first]
        while places[-1] < within.last:
            places.append(min(2 * places[-1], within.last))
        if len({at(k) for k in places}) == 1:
            raise self._idle(condition.names)
        sign = cache(lambda k: _sign(at(k)))
        found = []
        for start, end in pairwise(places):
            low = start
            while sign(low) != sign(end):
                same, other = low, end
                while other - same > 1:
                    middle = (same + other) // 2
                    same, other = (middle, other) if sign(middle) == sign(low) else (same, middle)
                found.append(SignInterval(low, same, sign(low)))
                low = other
            found.append(SignInterval(low, end, sign(end)))
        return merged(found)

    def _of_card(self, found: list[SignInterval], at: Callable[[int], Fraction], within: Domain) -> list[SignInterval]:
        """The signs on both sides of the largest size that ``memory --gpu`` tells, if it is an end; else as found.

        Raises Spent where nothing was found.
        """
        largest = self.evaluator.largest(self.unknown.name)
        k = within.place(largest) if largest else 0
        if not within.first <= k < within.last or (here := _sign(at(k))) == (beyond := _sign(at(k + 1))):
            if not found:
                raise Spent
            return found
        return [SignInterval(within.first, k, here), SignInterval(k + 1, within.last, beyond)]

    def _turning(self) -> UsageError:
        fact = f"the sides rise and fall with {self.unknown.word}, and have no closed form"
        return UsageError(fact, "compare one name with a number")

    def _difference(self, condition: Condition, values: Mapping[str, int]) -> Value:
        return evaluate(condition.left, values) - evaluate(condition.right, values)

    def _idle(self, names: Iterable[str]) -> UsageError:
        used = self.evaluator.letters_of(self.forms or {})
        told = f"{self.unknown.word} changes nothing in {' and '.join(sorted(names)) or 'it'}"
        if self.unknown.name == "gpus":
            return UsageError(told, "shard with --zero 3")
        if "memory" in self.evaluator.counted and not self.evaluator.memory_runs:
            return UsageError(f"{told} at rest", "add --train or --serve")
        return UsageError(told, f"solve for {', '.join(used)}" if used else "solve for another size")

    def _crossings(
        self, every: Sequence[Sequence[SignInterval]], ranges: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        """Neighbours between which an equation that nothing meets changes sides, by place."""
        if ranges or len(every) != 1 or self.conditions[0].operator != "=":
            return ()
        (intervals,) = every
        return tuple((one.last, other.first) for one, other in pairwise(intervals))

    def _rows(
        self, within: Domain, ranges: Sequence[tuple[int, int]], crossings: Sequence[tuple[int, int]]
    ) -> Iterable[SolutionRow]:
        """Yield each end with its neighbour on the other side; of an equation that nothing meets, both neighbours."""
        places: set[int] = {k for pair in crossings for k in pair}
        for first, last in ranges[:MOST_ROWS]:
            low, high = within.place(first), within.place(last)
            places |= {low - 1, low} if low > within.first else set()
            places |= {high, high + 1} if high < within.last else {high} if within.listed or self.limit else set()
        if not places:
            places = {within.first, within.last}
        for k in sorted(places)[: 2 * MOST_ROWS]:
            yield self.row(within.size(k))

    def _last(self, within: Domain) -> int:
        """The last place at which there is such a model, where those that there are come first: often a power of 10."""
        low, high = within.place(self.now), within.last + 1
        for power in range(len(str(within.last)), 1, -1):
            limit = 10**power // within.step
            if low <= limit < within.last and self._is(within, limit):
                if not self._is(within, limit + 1):
                    return int(limit)
                break
        reach = low
        while reach < high:
            if not self._is(within, reach):
                high = reach
                break
            low, reach = reach, reach * 2 + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is(within, middle) else (low, middle)
        return low

    def _is(self, within: Domain, k: int) -> bool:
        try:
            self.values(within.size(k))
        except InvalidModel:
            return False
        return True


def _lost(model: Model, now: Model) -> str:
    """Say which field that was asked for decides nothing in a model of this size; "" where all do."""
    if not (isinstance(model, HFModel) and isinstance(now, HFModel) and (lost := model.lost(now))):
        return ""
    return f"{lost} decides nothing there"


def _where(
    every: Sequence[Sequence[SignInterval]], conditions: Sequence[Condition], within: Domain
) -> tuple[tuple[int, int], ...]:
    """The sizes at which all comparisons hold."""
    found = [(within.first, within.last)]
    for intervals, each in zip(every, conditions, strict=True):
        joined = _joined(
            [(interval.first, interval.last) for interval in intervals if interval.sign in HOLDS[each.operator]]
        )
        found = [
            (max(one[0], other[0]), min(one[1], other[1]))
            for one in found
            for other in joined
            if max(one[0], other[0]) <= min(one[1], other[1])
        ]
    return tuple((within.size(first), within.size(last)) for first, last in found)


def _among(size: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(low <= size <= high for low, high in ranges)


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] == first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _sign(number: Value) -> int:
    return (number > 0) - (number < 0)


def _letters(forms: Mapping[str, Polynomial]) -> frozenset[str]:
    return frozenset[str]().union(*(form.free_symbols for form in forms.values()))
