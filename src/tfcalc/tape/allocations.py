"""Every allocation and every free of a training step, in order."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.memory_tracker import GATHER, PIECE, MemoryTracker, PeakRecorder, Storage, Turn

STEP = "step"
"""The phase after backward: what is there when it begins are the gradients."""


STREAMS = {GATHER: 1, PIECE: 2}
"""What FSDP allocates on a stream of its own: the allocator has pools for each, and gives no block to another.

Source: torch.distributed.fsdp._fully_shard, foreach_all_gather (``all_gather_copy_in_stream``) and foreach_reduce
(``reduce_scatter_stream``).
"""


Allocation = tuple[int, int, int]
"""A tensor by its number in the step, so many bytes for it, and the stream that they are on; 0 bytes: it is freed.

A plain tuple, as of those with names each part takes longer to read, and a step has a hundred thousand.
"""


class Span(NamedTuple):
    """The events of a turn, from the first to that behind the last."""

    turn: Turn
    first: int
    end: int


class Noted:
    """What was allocated and freed until the optimizer's ``step``, and what of it in which turn of a row of layers.

    What layers allocate that others stand for is told by :mod:`tfcalc.tape.repeated`.
    """

    def __init__(self) -> None:
        self.events: list[Allocation] = []
        self.spans: list[Span] = []
        self.ended = False
        self._numbers: dict[int, int] = {}
        self._begun: dict[Turn, int] = {}

    @property
    def length(self) -> int:
        """How many events there are with those of all turns that did not run."""
        return len(self.events) + sum((span.end - span.first) * (span.turn.times - 1) for span in self.spans)

    def comes_to(self, turn: Turn, *, begins: bool) -> None:
        """Where a turn begins or ends."""
        if begins:
            self._begun[turn] = len(self.events)
        else:
            self.spans.append(Span(turn, self._begun.pop(turn), len(self.events)))

    def allocated(self, key: int, size: int, stream: int = 0) -> None:
        """So many bytes by this key, unless they are none."""
        if size and not self.ended:
            self._numbers[key] = number = len(self.events)
            self.events.append((number, size, stream))

    def freed(self, key: int) -> None:
        """What goes by this key, if anything does."""
        number = self._numbers.pop(key, None)
        if number is not None and not self.ended:
            self.events.append((number, 0, 0))


class _Noting(MemoryTracker):
    """Notes what forward and backward allocate and free, beside all else that it tracks."""

    __slots__ = ()
    noted: Noted

    def begin(self, phase: str) -> None:
        """A phase begins."""
        super().begin(phase)
        self.noted.ended = phase == STEP

    def made(self, storage: Storage) -> None:
        """So many bytes more."""
        self.noted.allocated(id(storage), storage.bytes, STREAMS.get(storage.label, 0))
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """So many bytes less."""
        self.noted.freed(id(storage))
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        self.noted.allocated(0, value_of(size))
        self.noted.freed(0)
        super().needed(size)


class AllocationRecorder(_Noting):
    """Bytes that are live, and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()


class StepRecorder(_Noting, PeakRecorder):
    """What is live when most is, and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()
