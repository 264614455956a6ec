"""Evaluation of a quantity at many points: one run for all points with the same branches, and its closed forms there.

A run gets sizes that remember what was decided by them (:mod:`tfcalc.core.traced`): heads that divide the width, a
sequence that fills a window. What comes out is a closed form that holds wherever all would be decided in the same way.
The first point where it does not hold is the next to be run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcalc.core.number import Num
from tfcalc.core.polynomial import Atom, Floor, Polynomial, symbol
from tfcalc.core.traced import EFFORT, EQUAL, Guards, guarded
from tfcalc.errors import InvalidModel, UsageError
from tfcalc.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    """64-bit integers, or Python's own where these are too narrow."""

AT_ONCE = 1 << 14
"""Points, so that all forms at them fit into a processor's cache."""
BLOCK = 1 << 17
"""Points that are evaluated together, so that intermediate results take little memory."""
MOST = (1 << 63) - 1
"""Largest 64-bit integer; beyond it Python's own are used."""
RUNS, OF_A_RUN = 3_000, 120
"""Limit of runs of one sweep, and the effort of each beside its operations (building the model from its config): some
milliseconds (parameters) to some tenths of a second (training)."""
FEW = 3
"""Numbers that a size may be compared with before each of its values gets a run of its own."""

Forms = Callable[[Mapping[str, Num]], "Sequence[Polynomial]"]
"""Forms at these sizes, of which the answer is the highest. Raises InvalidModel."""
Single = Callable[[Mapping[str, int]], object]
"""Answer at sizes that are ints."""


class RefusedPoints(NamedTuple):
    """Reason why ``points`` points have no answer, in the words of the ``first`` of them."""

    error: InvalidModel
    first: int
    points: int


class Evaluated(NamedTuple):
    """Values at all points, whether each is ``valid``, why others are not, and the letters of all forms."""

    values: Array
    valid: NDArray[np.bool_]
    refused: tuple[RefusedPoints, ...]
    letters: frozenset[str]


def evaluate(
    forms_at: Forms,
    points: Mapping[str, Array],
    count: int,
    *,
    apart: frozenset[str] = frozenset(),
    why: Single | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Evaluated:
    """Evaluate the highest of the forms at each of ``count`` points, whose sizes are given by name.

    Args:
        forms_at: the forms at one point, by its sizes: ints for those that are ``apart``, others remember.
        points: an array of each size, all as long as there are points.
        count: how many points there are.
        apart: sizes of which each value has a run of its own.
        why: the same for plain ints, which tells in its own words why a point is refused.
        progress: told how many points are done.

    Returns:
        What is found; where no answer exists, the value is 0 and not ``valid``.

    Raises:
        UsageError: it takes too many runs.
    """
    found = _Found(np.zeros(count, np.int64), np.ones(count, bool))
    to_do = _groups(points, apart, np.arange(count, dtype=np.int32))[::-1]
    runs, done, pinned = 0, 0, _Pinned()
    while to_do:
        left = to_do.pop()
        while left.size:
            runs += 1
            EFFORT.spend(OF_A_RUN)
            if runs > RUNS:
                raise UsageError(
                    f"these sizes take more than {RUNS:,} runs, one for each case in which the model is another",
                    "sweep fewer of them",
                )
            ints, guards = {name: int(array[left[0]]) for name, array in points.items()}, Guards()
            sizes = {name: size if name in apart else guarded(name, size, guards) for name, size in ints.items()}
            forms, error = _asked(forms_at, sizes)
            free = {name: array for name, array in points.items() if name not in apart}
            wide = _wide(free, left, [*forms, *(form for form, _ in guards.decided)])
            alike = np.empty(left.size, bool)
            for start in range(0, left.size, BLOCK):
                part = slice(start, start + BLOCK)
                here: dict[str, Array] = {
                    name: array[left[part]].astype(wide, copy=False) for name, array in free.items()
                }
                alike[part] = guards.hold(here)
                if error is None:
                    chosen = {name: array[alike[part]] for name, array in here.items()}
                    found.put(left[part][alike[part]], forms, chosen)
                progress(done + int(np.count_nonzero(alike[: start + BLOCK])))
            if error is not None:
                found.refuse(left[alike], _in_own_words(error, why, ints))
            done += int(np.count_nonzero(alike))
            left = left[~alike]
            if left.size and (often := pinned.often(guards)):
                to_do += _groups(points, often, left)[::-1]
                break
    return Evaluated(found.values, found.valid, tuple(found.refused), frozenset(found.letters))


def _asked(forms_at: Forms, sizes: Mapping[str, Num]) -> tuple[Sequence[Polynomial], InvalidModel | None]:
    try:
        return forms_at(sizes), None
    except InvalidModel as error:
        return (), error


class _Found:
    """Values and refusals of the points so far."""

    def __init__(self, values: Array, valid: NDArray[np.bool_]) -> None:
        self.values, self.valid = values, valid
        self.refused: list[RefusedPoints] = []
        self.letters: set[str] = set()

    def put(self, places: Array, forms: Sequence[Polynomial], points: Mapping[str, Array]) -> None:
        if not places.size:
            return
        self.letters |= frozenset().union(*(form.free_symbols for form in forms))
        found = highest(forms, points, len(places))
        self.values = self.values.astype(np.result_type(self.values, found), copy=False)
        self.values[places] = found

    def refuse(self, places: Array, error: InvalidModel) -> None:
        self.valid[places] = False
        self.refused.append(RefusedPoints(error, int(places[0]), len(places)))


class _Pinned:
    """Sizes that branch on their exact value, such as a number of layers: each of its values has a run of its own.

    That a size is compared with one number (a batch of 1) makes no such size.
    """

    def __init__(self) -> None:
        self.values: dict[str, set[int]] = {}

    def often(self, guards: Guards) -> frozenset[str]:
        """Sizes that did so in this run, and with other numbers in several before."""
        for (form, relation), outcome in guards.decided.items():
            number = -form.terms.get((), 0)
            for letter in form.free_symbols if relation == EQUAL and outcome else ():
                if form == symbol(letter) - number:
                    self.values.setdefault(letter, set()).add(number)
        return frozenset(letter for letter, values in self.values.items() if len(values) > FEW)


def _in_own_words(
    error: InvalidModel, why: Callable[[Mapping[str, int]], object] | None, ints: Mapping[str, int]
) -> InvalidModel:
    """Refusal in the words of a single answer."""
    try:
        if why is not None:
            why(ints)
    except InvalidModel as same:
        return same
    return error


def _groups(points: Mapping[str, Array], names: frozenset[str], places: Array) -> list[Array]:
    """Return these places in groups that agree in the sizes of these names, in the order of their first ones."""
    if not names:
        return [places]
    keys = [points[name][places] for name in sorted(names)]
    order = np.lexsort(keys)
    changes = np.zeros(len(places), bool)
    for key in keys:
        changes[1:] |= key[order][1:] != key[order][:-1]
    groups = np.split(places[order], np.flatnonzero(changes))
    return sorted((np.sort(group) for group in groups), key=lambda group: int(group[0]))


def _wide(points: Mapping[str, Array], places: Array, forms: Sequence[Polynomial]) -> type:
    """64-bit integers, or Python's own where some form has numbers beyond these at some of the places."""
    largest = {
        name: int((array if places.size == array.size else array[places]).max()) for name, array in points.items()
    }
    return object if any(reach(form, largest) > MOST for form in forms) else np.int64


def reach(form: Polynomial | int, largest: Mapping[str, int]) -> int:
    """Bound of all intermediate numbers of a form's value, where sizes are at most ``largest``.

    >>> from tfcalc.core.polynomial import symbols
    >>> h, a = symbols("h a")
    >>> reach(4 * h * h - 2 * h, {"h": 10}), reach(h * h / a, {"h": 10, "a": 5}), reach(h * h // 7, {"h": 10})
    (420, 100, 101)
    """
    if isinstance(form, int):
        return abs(form)
    bound = 0
    for powers, factor in form.terms.items():
        term = abs(factor)
        for atom, power in powers:
            term *= _reach_of_atom(atom, largest) ** max(power, 0)
        bound += term
    return bound


def _reach_of_atom(atom: Atom, largest: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return max(largest.get(atom, 1), 1)
    if isinstance(atom, Floor):
        return max(reach(atom.dividend, largest), reach(atom.divisor, largest)) + 1
    return max(reach(atom.one, largest), reach(atom.other, largest), 1)


def highest(forms: Sequence[Polynomial], points: Mapping[str, Array], count: int) -> Array:
    """Maximum of these forms at each point; each power is computed once for all forms."""
    dtype = next((array.dtype for array in points.values()), np.dtype(np.int64))
    if max(reach(form, {name: int(array.max()) for name, array in points.items()}) for form in forms) > MOST:
        dtype = np.dtype(object)
    powers = list({each: None for form in forms for each in form.terms})
    if not powers:
        return np.zeros(count, np.int64)
    factors = np.array([[form.terms.get(each, 0) for each in powers] for form in forms], dtype)
    found = np.empty(count, dtype)
    for start in range(0, count, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        here = {name: array[part] for name, array in points.items()}
        width = min(AT_ONCE, count - start)
        values = [np.broadcast_to(np.asarray(Polynomial({each: 1}).at(here), dtype), width) for each in powers]
        found[part] = _most(factors, values)
    return found


def _most(factors: Array, values: list[Array]) -> Array:
    """Maximum of the sums of values times factors, row by row: numpy has no fast matrix product of integers."""
    best: Array | None = None
    for row in factors:
        total = sum(value * factor for value, factor in zip(values, row, strict=True) if factor)
        total = np.broadcast_to(np.asarray(total), values[0].shape)
        best = total if best is None else np.maximum(best, total)
    assert best is not None
    return best
