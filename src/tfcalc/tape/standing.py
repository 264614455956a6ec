"""Layers that represent others: what they leave behind counts as often as there are equal layers.

Of a row of equal layers only those at its ends need to run to find the peak. The live bytes at one point of a layer
change by the same number from each layer to the next: what each layer below has saved, or what each above has left in
gradients. A linear function has its maximum at an end, so the peak is in one of the first or last layers. The same
holds for a period of several unlike layers, compared with the period before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import ref

from tfcalc.tape.memory_tracker import MemoryTracker, Storage, Turn, TurnListener
from tfcalc.tape.tape import Tape
from tfcalc.tape.value import Callback


class RowCollapse:
    """Runs the layers of a stack, of which one, or one period of several, may represent others."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.waiting: tuple[list[ref[Storage]], int] | None = None
        self.until = 0
        """Number of layers that still run before the waiting storages are multiplied."""
        self.row = 0
        """Number of the row that runs, or ran last."""

    @contextmanager
    def runs(self, layers: int, at: int = 0, together: int = 1, turn: int | None = None) -> Iterator[None]:
        """Run a layer that represents ``layers``, ``at`` this place of the ``together`` layers of its period.

        Their storages that are still live when as many layers after them have ended are saved for backward, and count
        ``layers`` times. ``turn`` is the number of the period in its row, which is reported to a tracker that asks.
        """
        tracker = self.tape.tracker
        if turn is not None and tracker.turns is not None and at == 0:
            self.row += turn == 0
            self._report(tracker.turns, Turn(self.row, turn, layers), begins=True)
        if layers != 1 and at == 0:
            self._boundary(layers)
            tracker.since = []
        yield
        if layers == 1:
            self._ended()
        elif at == together - 1:
            storages, tracker.since = tracker.since or [], None
            self._boundary(layers)
            self.waiting, self.until = (storages, layers), together
        if turn is not None and tracker.turns is not None and at == together - 1:
            self._report(tracker.turns, Turn(self.row, turn, layers), begins=False)

    def _report(self, turns: TurnListener, turn: Turn, *, begins: bool) -> None:
        """Report the begin or end of a turn in forward, and later in backward, where begin and end are swapped."""
        turns.comes_to(turn, begins=begins)
        if self.tape.gradients:
            self.tape.nodes.append(Callback(lambda: turns.comes_to(turn._replace(backward=True), begins=not begins)))

    def _ended(self) -> None:
        if self.waiting is not None:
            self.until -= 1
            if not self.until:
                waiting, self.waiting = self.waiting, None
                multiply(self.tape.tracker, *waiting)

    def _boundary(self, layers: int) -> None:
        if self.tape.gradients:
            self.tape.nodes.append(Callback(lambda: crossed(self.tape.tracker, layers)))


def crossed(tracker: MemoryTracker, layers: int) -> None:
    """Note that backward gets to the end (first call) or begin (second call) of a layer that represents others.

    Gradients of parameters that it makes in between count ``layers`` times.
    """
    if tracker.since is None:
        tracker.since = []
        return
    storages, tracker.since = tracker.since, None
    multiply(tracker, storages, layers, gradients=True)


def multiply(tracker: MemoryTracker, storages: list[ref[Storage]], layers: int, *, gradients: bool = False) -> None:
    """Count the storages that are still live ``layers`` times, or only the ``gradients`` among them."""
    live = (storage() for storage in storages)
    for storage in {id(storage): storage for storage in live if storage is not None}.values():  # each of them once
        if storage.is_gradient or not gradients:
            tracker.multiplied(storage, layers)
