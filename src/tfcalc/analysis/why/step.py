"""A convention as a step: what people leave out, add, or multiply, and what that does to a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeVar

from tfcalc.analysis.why.given import PARAMS

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
        """The same without some cells; None where there are none of them, or no others."""
        kept = {cell: size for cell, size in self.cells.items() if not drops(cell)}
        return self._replace(cells=kept) if kept and len(kept) < len(self.cells) else None

    def only(self, keeps: Callable[[C], bool]) -> State[C] | None:
        """The same with these cells alone; None where that is nothing or all."""
        return self.without(lambda cell: not keeps(cell))

    def plus(self, cells: Mapping[C, int]) -> State[C] | None:
        """The same with more; None where they are nothing."""
        if not any(cells.values()):
            return None
        return self._replace(cells={**self.cells, **{cell: self.cells.get(cell, 0) + n for cell, n in cells.items()}})

    def changed(self, size: Callable[[C, int], int]) -> State[C] | None:
        """The same with other sizes; None where none changes."""
        made = {cell: size(cell, count) for cell, count in self.cells.items()}
        return self._replace(cells=made) if made != self.cells else None

    def times(self, factor: Fraction | int) -> State[C]:
        """The same, so many times."""
        return self._replace(factor=self.factor * factor)


Change = Callable[[State[C]], State[C] | None]


class Step(NamedTuple, Generic[C]):
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


class Root(NamedTuple, Generic[C]):
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


class Taken(NamedTuple):
    """A step that was taken: what it changed the number by, as arithmetic."""

    name: str
    words: str
    arithmetic: str
    flags: str


class Candidate(NamedTuple):
    """A number that conventions give: its exact ``value``, the steps from its root, what they cost together."""

    value: Fraction
    root: Root[Any]
    taken: tuple[Taken | tuple[Step[Any], State[Any]], ...]
    """Steps with the number after them; in words once they are :func:`~tfcalc.analysis.why.search.written`."""
    cost: float
    shown: Fraction
    """The value in the unit that is written: another one than ``value`` where GiB are called GB."""
