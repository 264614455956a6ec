"""What the allocator asks of CUDA's driver: memory in segments, and addresses."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tfcalc.footprint.allocator.settings import SMALL_SEGMENT, rounded_up

ADDRESSES = 2**47
"""Bytes of addresses that an expandable segment is given: more than it can fill (PyTorch: 1 1/8 of the card)."""


class SegmentEvent(NamedTuple):
    """Memory that came from the driver or went back to it.

    ``action`` is PyTorch's own word: ``segment_alloc`` and ``segment_free`` (cudaMalloc, cudaFree), ``segment_map`` and
    ``segment_unmap`` (pages of an expandable segment).
    """

    action: str
    address: int
    size: int
    stream: int


class Driver(Protocol):
    """Where segments begin."""

    def address_of(self, size: int) -> int:
        """That of a new segment of so many bytes."""


class Ascending:
    """Gives each segment the next addresses, and none twice."""

    def __init__(self) -> None:
        self.next = SMALL_SEGMENT

    def address_of(self, size: int) -> int:
        """That behind all so far."""
        address = self.next
        self.next += rounded_up(size, SMALL_SEGMENT)
        return address
