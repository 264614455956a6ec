"""The caching allocator: blocks are reused before the driver is asked, and go back to it only where it has no more.

Source: ``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, without graphs, garbage collection, and the
events that a use on a second stream waits for.
"""

from __future__ import annotations

from itertools import chain

from tfcalc.footprint.allocator.blocks import Block, Pool
from tfcalc.footprint.allocator.driver import Ascending, Driver, SegmentEvent
from tfcalc.footprint.allocator.settings import DEFAULT, SMALL, SMALLEST_BLOCK, Settings


class OutOfMemory(Exception):
    """Neither a free block nor the driver has so much."""


class CachingAllocator:
    """Blocks in segments that the driver was asked for one at a time (cudaMalloc).

    >>> allocator = CachingAllocator()
    >>> block = allocator.malloc(1000)
    >>> allocator.allocated, allocator.reserved
    (1024, 2097152)
    """

    def __init__(self, settings: Settings = DEFAULT, driver: Driver | None = None) -> None:
        self.settings = settings
        self.driver = driver or Ascending()
        self.large: dict[int, Pool] = {}
        self.small: dict[int, Pool] = {}
        self.allocated = self.most_allocated = 0
        self.reserved = self.most_reserved = 0
        self.segment_events: list[SegmentEvent] = []
        self._rounded: dict[int, int] = {}

    def malloc(self, size: int, stream: int = 0) -> Block:
        """A block for so many bytes, which are not 0. Raises OutOfMemory."""
        if size not in self._rounded:
            self._rounded[size] = self.settings.rounded(size)
        size = self._rounded[size]
        pool = self._pool(size, stream)
        block = self._free_block(pool, size) or self._new_block(pool, size)
        if self._splits(block, size):
            block, rest = block.first(size), block
            pool.add(rest)
        block.in_use = True
        self.allocated += block.size
        if self.allocated > self.most_allocated:
            self.most_allocated = self.allocated
        return block

    def free(self, block: Block) -> None:
        """It may be reused; with its free neighbours it is one block again."""
        block.in_use = False
        self.allocated -= block.size
        if block.left is not None and not block.left.in_use:
            block.merge(block.left)
        if block.right is not None and not block.right.in_use:
            block.merge(block.right)
        block.pool.add(block)

    def empty_cache(self) -> None:
        """Whatever can go back to the driver does so (``release_cached_blocks``)."""
        for block in self.free_blocks():
            self.release(block)

    def release(self, block: Block) -> None:
        """A free segment goes back to the driver; not where only a piece of it is free."""
        if block.is_split:
            return
        block.pool.remove(block)
        self._told("segment_free", block.address, block.size, block.pool)

    def free_blocks(self) -> list[Block]:
        """All free blocks, large ones first."""
        return [block for pool in chain(self.large.values(), self.small.values()) for _, _, block in pool.free]

    # --- what segments that expand do otherwise

    def _splits(self, block: Block, size: int) -> bool:
        """Whether what a block has beyond so many bytes becomes another (``should_split``)."""
        rest = block.size - size
        return rest >= SMALLEST_BLOCK if block.pool.small else not self.settings.whole(size) and rest > SMALL

    def _best(self, pool: Pool, size: int) -> Block | None:
        """The free block that fits best."""
        place = pool.at_least(size)
        return pool.free[place][2] if place < len(pool.free) else None

    def _segment(self, pool: Pool, size: int) -> Block | None:
        """A new segment, if the driver has so much (``alloc_block``)."""
        needed = self.settings.segment_for(size)
        if not self._has(needed):
            return None
        block = Block(pool, self.driver.address_of(needed), needed)
        self._told("segment_alloc", block.address, needed, pool)
        return block

    # ---

    def _pool(self, size: int, stream: int) -> Pool:
        small = size <= SMALL
        pools = self.small if small else self.large
        if stream not in pools:
            pools[stream] = Pool(stream, small=small)
        return pools[stream]

    def _free_block(self, pool: Pool, size: int) -> Block | None:
        """The free block that fits best, unless it is one that is kept whole, and too large (``get_free_block``)."""
        block = self._best(pool, size)
        if block is None:
            return None
        by = self.settings
        if by.whole(block.size) and (not by.whole(size) or block.size >= size + by.max_non_split_rounding):
            return None
        pool.remove(block)
        return block

    def _new_block(self, pool: Pool, size: int) -> Block:
        """Memory from the driver; where it has no more, after giving it back what is free."""
        block = self._segment(pool, size)
        if block is None and self._release_large(pool, size):
            block = self._segment(pool, size)
        if block is None:
            self.empty_cache()
            block = self._segment(pool, size)
        if block is None:
            raise OutOfMemory(f"{size:,} bytes, {self.allocated:,} allocated, {self.reserved:,} reserved")
        return block

    def _release_large(self, pool: Pool, size: int) -> bool:
        """Give back a free block that is kept whole and is large enough, or several together.

        Source: ``release_available_cached_blocks``.
        """
        if self.settings.max_split_size is None:
            return False
        size = max(size, self.settings.max_split_size)
        place = pool.at_least(size)
        if place < len(pool.free):
            self.release(pool.free[place][2])
            return True
        released = 0
        while pool.free and released < size and self.settings.whole(pool.free[-1][0]):
            released += pool.free[-1][0]
            self.release(pool.free[-1][2])
        return released >= size

    def _has(self, size: int) -> bool:
        return self.settings.limit is None or self.reserved + size <= self.settings.limit

    def _told(self, action: str, address: int, size: int, pool: Pool) -> None:
        self.segment_events.append(SegmentEvent(action, address, size, pool.stream))
        self.reserved += size if action in ("segment_alloc", "segment_map") else -size
        self.most_reserved = max(self.most_reserved, self.reserved)
