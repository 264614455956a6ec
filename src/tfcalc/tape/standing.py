"""Layers that stand for others: what they leave behind is counted as often as there are layers like them.

Of a row of equal layers only those at its ends need to run to find when most is live. A moment within a layer holds the
more, or the less, the higher the layer stands, by the same number of bytes for each: what each layer below has kept, or
what each above has left in gradients. So most is live in one of the first or of the last of them. The same holds of
several unlike layers that repeat in turn, where a moment is compared with that of the turn before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from tfcalc.tape.memory_tracker import MemoryTracker, Storage, Turn, Turns
from tfcalc.tape.value import Crossing

if TYPE_CHECKING:
    from tfcalc.tape.tape import Tape


class Ends(NamedTuple):
    """Layers of a row that run before and after the one that stands for the rest.

    The first and the last may differ from the others in what is beside them; and the one behind the rest lets go of
    what all these have handed on. Where several unlike layers repeat in turn, so many of their turns.
    """

    below: int
    above: int


WITH_BACKWARD, FORWARD_ALONE = Ends(2, 3), Ends(1, 2)
"""Backward meets the last layers first, and what the first ones read may need no gradient."""


class Standing:
    """Runs layers of a stack, of which one, or several in turn, may stand for others."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.waiting: tuple[list[ref[Storage]], int] | None = None
        self.until = 0
        """How many layers are still to run until what waits is counted."""
        self.row = 0
        """The number of the row that runs, or ran last."""

    @contextmanager
    def runs(self, layers: int, at: int = 0, together: int = 1, turn: int | None = None) -> Iterator[None]:
        """A layer that stands for so many, ``at`` this place of those that do so ``together``.

        What these have made and is there when as many layers behind them have ended, has been kept: it is there as many
        times. In a row that repeats, they are its ``turn`` of this number, of which a tracker may want to know.
        """
        tracker = self.tape.tracker
        if turn is not None and tracker.turns is not None and at == 0:
            self.row += turn == 0
            self._told(tracker.turns, Turn(self.row, turn, layers), begins=True)
        if layers != 1 and at == 0:
            self._boundary(layers)
            tracker.since = []
        yield
        if layers == 1:
            self._ended()
        elif at == together - 1:
            found, tracker.since = tracker.since or [], None
            self._boundary(layers)
            self.waiting, self.until = (found, layers), together
        if turn is not None and tracker.turns is not None and at == together - 1:
            self._told(tracker.turns, Turn(self.row, turn, layers), begins=False)

    def _told(self, turns: Turns, turn: Turn, *, begins: bool) -> None:
        """Forward comes to where a turn begins or ends; backward will, the other way round."""
        turns.comes_to(turn, begins=begins)
        if self.tape.gradients:
            self.tape.nodes.append(Crossing(lambda: turns.comes_to(turn._replace(backward=True), begins=not begins)))

    def _ended(self) -> None:
        if self.waiting is not None:
            self.until -= 1
            if not self.until:
                waiting, self.waiting = self.waiting, None
                multiply(self.tape.tracker, *waiting)

    def _boundary(self, layers: int) -> None:
        if self.tape.gradients:
            self.tape.nodes.append(Crossing(lambda: crossed(self.tape.tracker, layers)))


def crossed(tracker: MemoryTracker, layers: int) -> None:
    """Backward comes to where the layer that stands for others begins or ends: first to its end.

    Gradients are looked for from there to its beginning.
    """
    if tracker.since is None:
        tracker.since = []
        return
    found, tracker.since = tracker.since, None
    multiply(tracker, found, layers, gradients=True)


def multiply(tracker: MemoryTracker, found: list[ref[Storage]], layers: int, *, gradients: bool = False) -> None:
    """Count those that are still there so many times, or the ``gradients`` among them; each once, if found twice."""
    there = (each() for each in found)
    for storage in {id(one): one for one in there if one is not None}.values():
        if storage.is_gradient or not gradients:
            tracker.multiplied(storage, layers)
