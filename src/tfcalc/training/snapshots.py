"""PyTorch's own record of its allocations, replayed: the segments have to come out as the record says.

``torch.cuda.memory._snapshot()["device_traces"]`` is a list of entries for each device, each with ``action``, ``addr``,
``size`` and ``stream`` (torch/csrc/cuda/memory_snapshot.cpp; the words are listed in torch/cuda/_memory_viz.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfcalc.errors import TfcalcError
from tfcalc.training.allocator import (
    DEFAULT,
    AllocatorSettings,
    Block,
    CachingAllocator,
    ExpandableAllocator,
    SegmentEvent,
)

GROWS = ("segment_alloc", "segment_map")
SHRINKS = ("segment_free", "segment_unmap")


class ReplayError(TfcalcError):
    """The record says otherwise than the simulation, or does not begin with an empty cache."""


class _Recorded:
    """A driver that gives a segment the address that the record has for it; ``told`` is what it says before a block."""

    def __init__(self) -> None:
        self.told: list[SegmentEvent] = []

    def address_of(self, size: int) -> int:
        if not self.told:
            raise ReplayError(f"{size:,} bytes are asked of the driver, which the trace does not have")
        return self.told[0].address


class Replay:
    """A device's trace, done again by the simulated ``allocator``."""

    def __init__(self, settings: AllocatorSettings = DEFAULT) -> None:
        self.driver = _Recorded()
        kind = ExpandableAllocator if settings.expandable_segments else CachingAllocator
        self.allocator = kind(settings, self.driver)
        self.live: dict[int, Block] = {}

    def entry(self, entry: Mapping[str, object]) -> None:
        """The next entry. Raises ReplayError where a block or a segment is not where it was."""
        action = str(entry["action"])
        address, size, stream = (int(str(entry.get(key, 0))) for key in ("addr", "size", "stream"))
        if action in GROWS:
            self.driver.told.append(SegmentEvent(action, address, size, stream))
        elif action == "alloc":
            self._allocated(address, size, stream)
        elif action == "free_completed":
            if address not in self.live:
                raise ReplayError(f"{address} is freed, and was not allocated", "record from the first allocation on")
            self.allocator.free(self.live.pop(address))
        elif action in SHRINKS:
            self._given_back(address)

    def _allocated(self, address: int, size: int, stream: int) -> None:
        before = len(self.allocator.segment_events)
        block = self.allocator.malloc(size, stream)
        made = self.allocator.segment_events[before:]
        if made != self.driver.told:
            raise ReplayError(f"for {size:,} bytes the driver is asked {made}, in the trace {self.driver.told}")
        if block.address != address:
            raise ReplayError(f"{size:,} bytes are at {block.address}, in the trace at {address}")
        self.driver.told = []
        self.live[address] = block

    def _given_back(self, address: int) -> None:
        """Check memory that goes back to the driver.

        The trace says when that happens, as it does not say how much memory there is.
        """
        for block in self.allocator.free_blocks():
            if block.address <= address < block.address + block.size and not self._kept(block):
                return
        raise ReplayError(f"{address} goes back to the driver, and is in use")

    def _kept(self, block: Block) -> bool:
        before = self.allocator.reserved
        self.allocator.release(block)
        return self.allocator.reserved == before


def replay(trace: Iterable[Mapping[str, object]], settings: AllocatorSettings = DEFAULT) -> CachingAllocator:
    """Allocator after a device's trace, which begins before the first allocation. Raises ReplayError.

    >>> told = {"addr": 0, "size": 2097152, "stream": 0}
    >>> replay([{"action": "segment_alloc", **told}, {"action": "alloc", **told, "size": 37632}]).allocated
    37888
    """
    made = Replay(settings)
    for entry in trace:
        made.entry(entry)
    return made.allocator
