"""Every allocation and every free of a training step, in order."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.memory_tracker import GATHER, PIECE, MemoryTracker, Storage

STEP = "step"
"""The phase after backward: what is there when it begins are the gradients."""


STREAMS = {GATHER: 1, PIECE: 2}
"""What FSDP allocates on a stream of its own: the allocator has pools for each, and gives no block to another.

Source: torch.distributed.fsdp._fully_shard, foreach_all_gather (``all_gather_copy_in_stream``) and foreach_reduce
(``reduce_scatter_stream``).
"""


class Allocation(NamedTuple):
    """So many bytes for a tensor, by its number in the step, on a stream; 0 bytes: it is freed."""

    tensor: int
    bytes: int
    stream: int = 0


class AllocationRecorder(MemoryTracker):
    """Notes what forward and backward allocate and free; every layer has to run by itself for it."""

    __slots__ = ("_numbers", "events")

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Allocation] = []
        self._numbers: dict[int, int] = {}

    def made(self, storage: Storage) -> None:
        """So many bytes more."""
        self._allocated(id(storage), storage.bytes, STREAMS.get(storage.label, 0))
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """So many bytes less."""
        self._freed(id(storage))
        super().gone(storage)

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        self._allocated(0, value_of(size))
        self._freed(0)
        super().needed(size)

    def _allocated(self, key: int, size: int, stream: int = 0) -> None:
        if size and self.phase != STEP:
            self._numbers[key] = len(self.events)
            self.events.append(Allocation(len(self.events), size, stream))

    def _freed(self, key: int) -> None:
        if key in self._numbers and self.phase != STEP:
            self.events.append(Allocation(self._numbers.pop(key), 0))
