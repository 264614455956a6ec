"""Allocations and frees of a training step, in order."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.memory_tracker import GATHER, PIECE, MemoryTracker, PeakRecorder, Storage, Turn

STEP = "step"
"""Name of the phase after backward, at whose begin only the gradients are live."""


STREAMS = {GATHER: 1, PIECE: 2}
"""Streams of FSDP's buffers: the caching allocator has pools for each stream, and shares no block between them.

Source: torch.distributed.fsdp._fully_shard, foreach_all_gather (``all_gather_copy_in_stream``) and foreach_reduce
(``reduce_scatter_stream``).
"""


Allocation = tuple[int, int, int]
"""Number of a tensor in the step, its bytes (0: it is freed), and the stream.

A plain tuple, as fields of a NamedTuple take longer to read, and a step has a hundred thousand of these.
"""


class Span(NamedTuple):
    """Events ``first`` to ``end`` (exclusive) of a turn."""

    turn: Turn
    first: int
    end: int


class Noted:
    """Allocations and frees until the optimizer's ``step``, and their turns in rows of equal layers.

    :mod:`tfcalc.tape.repeated` adds the events of layers that did not run.
    """

    def __init__(self) -> None:
        self.events: list[Allocation] = []
        self.spans: list[Span] = []
        self.ended = False
        self._numbers: dict[int, int] = {}
        self._begun: dict[Turn, int] = {}

    @property
    def length(self) -> int:
        """Number of events, including those of turns that did not run."""
        return len(self.events) + sum((span.end - span.first) * (span.turn.times - 1) for span in self.spans)

    def comes_to(self, turn: Turn, *, begins: bool) -> None:
        """Note where a turn begins or ends."""
        if begins:
            self._begun[turn] = len(self.events)
        else:
            self.spans.append(Span(turn, self._begun.pop(turn), len(self.events)))

    def allocated(self, key: int, size: int, stream: int = 0) -> None:
        """Note an allocation under this key, unless it is empty."""
        if size and not self.ended:
            self._numbers[key] = number = len(self.events)
            self.events.append((number, size, stream))

    def freed(self, key: int) -> None:
        """Note the free of an allocation, if there is one under this key."""
        number = self._numbers.pop(key, None)
        if number is not None and not self.ended:
            self.events.append((number, 0, 0))


class _AllocationMixin(MemoryTracker):
    """Records allocations and frees of forward and backward, beside all else that a tracker counts."""

    __slots__ = ()
    noted: Noted

    def begin(self, phase: str) -> None:
        """Begin a phase; nothing is recorded from the optimizer's step on."""
        super().begin(phase)
        self.noted.ended = phase == STEP

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        self.noted.allocated(id(storage), storage.bytes, STREAMS.get(storage.label, 0))
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        self.noted.freed(id(storage))
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        self.noted.allocated(0, value_of(size))
        self.noted.freed(0)
        super().needed(size)


class AllocationRecorder(_AllocationMixin):
    """Tracks live bytes and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()


class StepRecorder(_AllocationMixin, PeakRecorder):
    """Tracks the tensors live at the peak and every allocation."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__()
        self.turns = self.noted = Noted()
