"""How many bytes are live, what for, and when most were."""

from __future__ import annotations

from typing import NamedTuple, Protocol
from weakref import ref

from tfcalc.core.number import Num, product
from tfcalc.core.traced import value_of
from tfcalc.number_formats import WIDTHS as WIDTHS  # the programs on the tape read it from here

LENT = WEIGHTS, GATHER, REDUCE = "gathered weights", "all-gather buffer", "reduce-scatter buffer"
"""Labels of what is there for other devices' sake."""
PIECE = "reduced gradients"
"""What a device has of gradients that all have made."""


class Place(NamedTuple):
    """A module inside another: its name, for how many equal ones it stands, and how often each of these runs."""

    name: str
    copies: Num = 1
    passes: Num = 1


class Turn(NamedTuple):
    """One of the turns of a row of layers that repeat: which row, which turn of it, and for how many it stands."""

    row: int
    number: int
    times: int
    backward: bool = False


class Turns(Protocol):
    """Who wants to know where turns begin and end."""

    def comes_to(self, turn: Turn, *, begins: bool) -> None:
        """Forward, or backward, comes to where a turn begins or ends for it."""
        ...


class MemorySnapshot:
    """What was live when most was: so many bytes in all, of which saved for backward, gathered, and gradients."""

    __slots__ = ("gathered", "gradients", "saved", "total")

    def __init__(self) -> None:
        self.total = 0
        self.gathered = 0
        self.saved = 0
        self.gradients = 0

    @property
    def temporary(self) -> int:
        """The rest: results that nobody keeps, gradients that are on their way."""
        return self.total - self.saved - self.gradients - self.gathered


class MemoryTracker:
    """Counts the bytes of every storage from its making until nothing refers to it any more.

    Python's own reference counting says when that is, as it does in PyTorch: a variable of a program that runs on the
    tape keeps a tensor alive exactly as long as the same variable does there. A tracker that does not ``watch`` counts
    nothing; then sizes may be symbols.
    """

    __slots__ = (
        *("alone", "apart", "gathered", "gradients", "live", "most", "most_apart", "phase", "phases", "phases_apart"),
        *("saved", "since", "turns", "watch"),
    )

    def __init__(self, *, watch: bool = True) -> None:
        self.watch = watch
        self.live = 0
        self.saved = 0
        self.gradients = 0
        self.gathered = 0
        self.most = MemorySnapshot()
        self.phase = ""
        self.phases: dict[str, MemorySnapshot] = {}
        self.most_apart = MemorySnapshot()
        self.phases_apart: dict[str, MemorySnapshot] = {}
        """The same without the gradients of parameters: what is live where these are added to buffers elsewhere."""
        self.apart = True
        """Whether that can be told: not where two are added in new memory, say."""
        self.alone = 0
        """Bytes of gradients that nothing else waits for."""
        self.since: list[ref[Storage]] | None = None
        """What has been made, or become a gradient, since somebody asked."""
        self.turns: Turns | None = None

    def begin(self, phase: str) -> None:
        """A phase begins; that before it ends, and its highest moment is kept."""
        apart, before = self.most_apart, self.new_phase()
        if self.phase:
            self.phases[self.phase], self.phases_apart[self.phase] = before, apart
        self.phase = phase

    def new_phase(self) -> MemorySnapshot:
        """Forget the highest moment so far, and answer with it."""
        before, self.most, self.most_apart = self.most, MemorySnapshot(), MemorySnapshot()
        self._look()
        return before

    def made(self, storage: Storage) -> None:
        """So many bytes more."""
        if self.watch:
            self.live += storage.bytes
            if self.since is not None:
                self.since.append(ref(storage))
            if self.live > self.most.total or self.live - self.alone > self.most_apart.total:
                self._look()

    def gone(self, storage: Storage) -> None:
        """So many bytes less."""
        if self.watch:
            self.live -= storage.bytes

    def kept(self, storage: Storage) -> None:
        """It is needed by backward from now on."""
        if self.watch:
            self.saved += storage.bytes

    def released(self, storage: Storage) -> None:
        """It is not needed by it any more."""
        if self.watch:
            self.saved -= storage.bytes

    def gradient(self, storage: Storage) -> None:
        """It is a parameter's gradient, and stays."""
        if self.watch:
            self.gradients += storage.bytes
            storage.is_gradient = True
            if storage.keepers:
                self.apart = False
            if not storage.waiting:
                self.alone += storage.bytes
            if self.since is not None:
                self.since.append(ref(storage))

    def left(self, storage: Storage) -> None:
        """It is a parameter's gradient, and nothing else waits for it any more."""
        if self.watch:
            self.alone += storage.bytes

    def replaced(self, storage: Storage) -> None:
        """It was a parameter's gradient, and has been added to another."""
        if self.watch:
            self.gradients -= storage.bytes
            storage.is_gradient = False
            self.apart = False

    def lent(self, size: Num) -> None:
        """So many bytes more are for other devices' sake, or less."""
        if self.watch:
            self.gathered += value_of(size)

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        if self.watch:
            self.live += value_of(size)
            self._look()
            self.live -= value_of(size)

    def multiplied(self, storage: Storage, times: int) -> None:
        """It is there so many times, as other layers have made some, too, that did not run."""
        more = (times - 1) * storage.bytes
        storage.bytes += more
        self.live += more
        self.saved += more if storage.keepers else 0
        if storage.is_gradient:
            self.gradients += more
            self.alone += more
            self.apart = self.apart and not storage.waiting

    def _look(self) -> None:
        if self.live > self.most.total:
            self.most.total, self.most.saved, self.most.gradients = self.live, self.saved, self.gradients
            self.most.gathered = self.gathered
        if self.live - self.alone > self.most_apart.total:
            self.most_apart.total, self.most_apart.saved = self.live - self.alone, self.saved
            self.most_apart.gathered = self.gathered


class Found(NamedTuple):
    """A tensor that was live at the moment in question: what made it, in which format, and its shape."""

    label: str
    dtype: str
    shape: tuple[Num, ...]

    @property
    def elements(self) -> Num:
        """How many numbers it has."""
        return product(self.shape)


KEPT, GRADIENT, PASSING, GONE = "saved", "gradient", "passing", "gone"
"""What a storage is live for: backward, the optimizer, or neither of them."""


class PeakRecorder(MemoryTracker):
    """Remembers what became of every tensor, so that it can tell what was live when a phase held most."""

    __slots__ = ("_at", "_copies", "_events", "_highest")

    def __init__(self) -> None:
        super().__init__()
        self._events: list[tuple[int, Found | None, str]] = []
        """Of a storage: what it is while it is live, and what for."""
        self._copies: dict[int, int] = {}
        self._at = 0
        """How many events there were before the highest moment of the phase that runs."""
        self._highest: dict[str, int] = {}

    def begin(self, phase: str) -> None:
        """A phase begins; where that before it was highest is remembered."""
        self._highest[self.phase] = self._at
        super().begin(phase)

    def passing(self, phase: str) -> list[Found]:
        """What was live, neither kept nor a gradient, when this phase first held most, in the order of its making."""
        return self._live(phase, PASSING)

    def gradients_at(self, phase: str) -> list[Found]:
        """The gradients of parameters that were live then."""
        return self._live(phase, GRADIENT)

    def _live(self, phase: str, purpose: str) -> list[Found]:
        live: dict[int, tuple[Found, str]] = {}
        for key, found, what_for in self._events[: self._highest.get(phase, self._at)]:
            if found is not None:
                live[key] = found, what_for
            else:
                del live[key]
        return [found for found, what_for in live.values() if what_for == purpose]

    def made(self, storage: Storage) -> None:
        """So many bytes more."""
        self._note(storage)
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """So many bytes less."""
        self._copies.pop(id(storage), None)
        self._events.append((id(storage), None, GONE))
        super().gone(storage)

    def kept(self, storage: Storage) -> None:
        """It is needed by backward from now on."""
        super().kept(storage)
        self._note(storage)

    def released(self, storage: Storage) -> None:
        """It is not needed by it any more."""
        super().released(storage)
        self._note(storage)

    def gradient(self, storage: Storage) -> None:
        """It is a parameter's gradient, and stays."""
        super().gradient(storage)
        self._note(storage)

    def replaced(self, storage: Storage) -> None:
        """It was a parameter's gradient, and has been added to another."""
        super().replaced(storage)
        self._note(storage)

    def multiplied(self, storage: Storage, times: int) -> None:
        """It is there so many times."""
        super().multiplied(storage, times)
        self._copies[id(storage)] = times * self._copies.get(id(storage), 1)
        self._note(storage)

    def _note(self, storage: Storage) -> None:
        purpose = KEPT if storage.keepers else GRADIENT if storage.is_gradient else PASSING
        shape = (*storage.shape, self._copies.get(id(storage), 1))
        self._events.append((id(storage), Found(storage.label, storage.dtype, shape), purpose))

    def _look(self) -> None:
        before = self.most.total
        super()._look()
        if self.most.total > before:
            self._at = len(self._events)


class Storage:
    """The memory behind one or more tensors: as many numbers as its shape has, of so many bytes each.

    Made in a loop of which one turn runs for so many ``times``, it is counted once while it is a turn's own. Backward
    may make it again from another, which is ``kept_as`` it.
    """

    __slots__ = (
        "__weakref__",
        *(
            "bytes",
            "counts",
            "dtype",
            "home",
            "is_gradient",
            "keepers",
            "kept_as",
            "label",
            "shape",
            "tracker",
            "times",
            "waiting",
        ),
    )

    def __init__(
        self,
        tracker: MemoryTracker,
        shape: tuple[Num, ...],
        dtype: str,
        label: str,
        *,
        counts: bool = True,
        times: Num = 1,
    ) -> None:
        self.tracker = tracker
        self.shape = shape
        self.dtype = dtype
        self.bytes = _bytes(shape, dtype) if tracker.watch else 0
        self.label = label
        self.home: tuple[Place, ...] = ()  # the module that it belongs to, where that is not the one that keeps it
        self.counts = counts  # what is held anyway (parameters, buffers, inputs) is counted elsewhere
        self.keepers = 0
        self.is_gradient = False
        self.kept_as: Storage | None = None
        self.times = times
        self.waiting = 0  # nodes that it is a gradient for, and that have not run yet
        if counts:
            tracker.made(self)

    @property
    def elements(self) -> Num:
        """How many numbers it holds."""
        return product(self.shape)

    @property
    def size(self) -> Num:
        """Its bytes, which may be a formula."""
        return self.elements * WIDTHS[self.dtype]

    def repeat(self) -> None:
        """Every turn of a loop has one that lasts longer than the turn, so that there are as many as turns."""
        times, self.times = self.times, 1
        if not isinstance(times, int) or times != 1:
            self.tracker.gone(self)
            self.shape = (*self.shape, times)
            self.bytes *= value_of(times) if self.tracker.watch else 0
            self.tracker.made(self)

    def keep(self) -> None:
        """A node of the graph needs it for backward."""
        self.keepers += 1
        self.repeat()
        if self.keepers == 1 and self.counts:
            self.tracker.kept(self)

    def release(self) -> None:
        """That node has run."""
        self.keepers -= 1
        if self.keepers == 0 and self.counts:
            self.tracker.released(self)

    def __del__(self) -> None:
        if self.counts:
            self.tracker.gone(self)


def _bytes(shape: tuple[Num, ...], dtype: str) -> int:
    found = WIDTHS[dtype]
    for size in shape:
        found *= size if type(size) is int else value_of(size)  # most are: a call for each takes longer than all else
    return found
