"""The caching allocator: blocks are reused before the driver is asked, and go back to it only where it has no more.

Source: ``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, without graphs, garbage collection, and the
events that a use on a second stream waits for.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain

from tfcalc.footprint.allocator.blocks import ADDRESS, Block, Pool
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
        self._keeps_whole = settings.max_split_size is not None

    def malloc(self, size: int, stream: int = 0) -> Block:
        """A block for so many bytes, which are not 0. Raises OutOfMemory."""
        size = self._rounded.get(size) or self._round(size)
        pool = (self.small if size <= SMALL else self.large).get(stream) or self._pool(size, stream)
        place = self._best(pool, size)
        if place < len(pool.free) and not (self._keeps_whole and self._too_large(pool.free[place] >> ADDRESS, size)):
            block = pool.blocks.pop(pool.free.pop(place))
        else:
            block = self._new_block(pool, size)
        if block.size - size >= SMALLEST_BLOCK and self._splits(block, size):
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
        left, right = block.left, block.right
        if left is not None and not left.in_use:
            block.merge(left)
        if right is not None and not right.in_use:
            block.merge(right)
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
        return [block for pool in chain(self.large.values(), self.small.values()) for block in pool.in_order()]

    # --- what segments that expand do otherwise

    def _splits(self, block: Block, size: int) -> bool:
        """Whether what a block has beyond so many bytes, if that is a block, becomes another (``should_split``)."""
        return block.pool.small or (block.size - size > SMALL and not self.settings.whole(size))

    def _best(self, pool: Pool, size: int) -> int:
        """The place of the free block that fits best; behind the last, where none does."""
        return bisect_left(pool.free, size << ADDRESS)  # as at_least, without another call

    def _segment(self, pool: Pool, size: int) -> Block | None:
        """A new segment, if the driver has so much (``alloc_block``)."""
        needed = self.settings.segment_for(size)
        if not self._has(needed):
            return None
        block = Block(pool, self.driver.address_of(needed), needed)
        self._told("segment_alloc", block.address, needed, pool)
        return block

    # ---

    def _round(self, size: int) -> int:
        rounded = self._rounded[size] = self.settings.rounded(size)
        return rounded

    def _pool(self, size: int, stream: int) -> Pool:
        """The first time that a stream is given such a block."""
        small = size <= SMALL
        made = (self.small if small else self.large)[stream] = Pool(stream, small=small)
        return made

    def _too_large(self, block: int, size: int) -> bool:
        """Whether a block of so many bytes is kept whole, and not for so few (``get_free_block``)."""
        by = self.settings
        return by.whole(block) and (not by.whole(size) or block >= size + by.max_non_split_rounding)

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
            self.release(pool.blocks[pool.free[place]])
            return True
        released = 0
        while pool.free and released < size and self.settings.whole(pool.free[-1] >> ADDRESS):
            released += pool.free[-1] >> ADDRESS
            self.release(pool.blocks[pool.free[-1]])
        return released >= size

    def _has(self, size: int) -> bool:
        return self.settings.limit is None or self.reserved + size <= self.settings.limit

    def _told(self, action: str, address: int, size: int, pool: Pool) -> None:
        self.segment_events.append(SegmentEvent(action, address, size, pool.stream))
        self.reserved += size if action in ("segment_alloc", "segment_map") else -size
        self.most_reserved = max(self.most_reserved, self.reserved)
