"""Layers that stand for others: what they leave behind is counted as often as there are layers like them.

Of a row of equal layers only those at its ends need to run to find when most is live. A moment within a layer holds the
more, or the less, the higher the layer stands, by the same number of bytes for each: what each layer below has kept, or
what each above has left in gradients. So most is live in one of the first or of the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import ref

from tfcalc.tape.memory_tracker import MemoryTracker, Storage
from tfcalc.tape.value import Crossing

if TYPE_CHECKING:
    from tfcalc.tape.tape import Tape

BELOW, ABOVE = 2, 3
"""Layers of a row that run before and after the one that stands for the rest. The first and the last may differ from
the others in what is beside them; and the one behind the rest lets go of what all these have handed on."""


class Standing:
    """Runs layers of a stack, one of which may stand for others."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.waiting: tuple[list[ref[Storage]], int] | None = None

    @contextmanager
    def runs(self, layers: int) -> Iterator[None]:
        """A layer that stands for so many.

        What it has made and is there when the layer behind it ends, has been kept: it is there as many times.
        """
        waiting, self.waiting = self.waiting, None
        if layers == 1:
            yield
        else:
            self._boundary(layers)
            self.tape.tracker.since = []
            yield
            found, self.tape.tracker.since = self.tape.tracker.since, None
            self._boundary(layers)
            self.waiting = found, layers
        if waiting is not None:
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
