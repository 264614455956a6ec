"""What can be set of the caching allocator (``PYTORCH_ALLOC_CONF``), and how it rounds what is asked for.

Source: c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.13.
"""

from __future__ import annotations

from typing import NamedTuple

MIB = 2**20

SMALLEST_BLOCK = 512
"""``kMinBlockSize``: all sizes are rounded up to multiples of it."""
SMALL = MIB
"""``kSmallSize``: what is not larger comes from the pool of small blocks."""
SMALL_SEGMENT = 2 * MIB
"""``kSmallBuffer``: what the driver is asked for where a small block is missing."""
LARGE_SEGMENT = 20 * MIB
"""``kLargeBuffer``: the same for blocks that are larger than small, and smaller than the next."""
LARGE = 10 * MIB
"""``kMinLargeAlloc``: from here on each block that is missing has a segment of its own."""
LARGE_ROUNDING = 2 * MIB
"""``kRoundLarge``: whose size is a multiple of it."""
INTERVALS = 16
"""Powers of two, from 1 MiB to 64 GiB, between each of which there may be another number of divisions."""


class Settings(NamedTuple):
    """How the allocator is configured.

    ``divisions`` are ``roundup_power2_divisions``, one number for all powers of two or one for each of 16; ``limit``
    is what the driver has, in bytes; None is as much as is asked for.
    """

    max_split_size: int | None = None
    divisions: tuple[int, ...] = ()
    expandable_segments: bool = False
    large_segment: int = LARGE_SEGMENT
    max_non_split_rounding: int = LARGE_SEGMENT
    limit: int | None = None

    def rounded(self, size: int) -> int:
        """The bytes of the block for so many bytes (``round_size``).

        >>> Settings().rounded(1), Settings().rounded(513), Settings(divisions=(4,)).rounded(1200 * 1024) // 1024
        (512, 1024, 1280)
        """
        divisions = self._divisions(size)
        if divisions > 1 and size > SMALLEST_BLOCK * divisions:
            return rounded_in_powers(size, divisions)
        return rounded_up(max(size, SMALLEST_BLOCK), SMALLEST_BLOCK)

    def _divisions(self, size: int) -> int:
        if len(self.divisions) < 2:
            return self.divisions[0] if self.divisions else 0
        return self.divisions[min(max(size.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)]

    def segment_for(self, block: int) -> int:
        """The bytes that the driver is asked for where such a block is missing (``get_allocation_size``)."""
        if block <= SMALL:
            return SMALL_SEGMENT
        return self.large_segment if block < LARGE else rounded_up(block, LARGE_ROUNDING)

    def whole(self, block: int) -> bool:
        """Whether a block is one of those that are never split (``max_split_size``)."""
        return self.max_split_size is not None and block >= self.max_split_size


DEFAULT = Settings()
"""As PyTorch comes."""


def rounded_up(size: int, to: int) -> int:
    """The next multiple."""
    return -(-size // to) * to


def rounded_in_powers(size: int, divisions: int) -> int:
    """The next of so many steps from one power of two to that above it (``roundup_power2_next_division``).

    >>> rounded_in_powers(1100, 4), rounded_in_powers(1024, 4), rounded_in_powers(1300, 4)
    (1280, 1024, 1536)
    """
    power = 1 << (size.bit_length() - 1)
    step = power >> (divisions.bit_length() - 1)
    if size == power:
        return size
    return rounded_up(size, step) if step else 2 * power
