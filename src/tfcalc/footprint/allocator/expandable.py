"""Segments that expand: one of small and one of large blocks for each stream, which grow by pages.

Source: Note [Expandable Segments], ``map_block``, ``unmap_block`` and ``try_allocate_expandable_block`` of
c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from tfcalc.footprint.allocator.blocks import Block, Pool
from tfcalc.footprint.allocator.caching import CachingAllocator
from tfcalc.footprint.allocator.driver import ADDRESSES
from tfcalc.footprint.allocator.settings import SMALL_SEGMENT, rounded_up


class ExpandableAllocator(CachingAllocator):
    """Blocks in segments whose addresses are set aside at once, and get memory as it is needed.

    >>> allocator = ExpandableAllocator()
    >>> block = allocator.malloc(30 * 2**20)
    >>> allocator.allocated // 2**20, allocator.reserved // 2**20
    (30, 40)
    """

    def _splits(self, _block: Block, _size: int) -> bool:
        return True

    def _best(self, pool: Pool, size: int) -> int:
        """A block that can grow counts as large as it can become."""
        place, free, blocks = pool.at_least(size), pool.free, pool.blocks
        while place + 1 < len(free) and _could_be(blocks[free[place + 1]]) < _could_be(blocks[free[place]]):
            place += 1
        return place

    def _segment(self, pool: Pool, size: int) -> Block | None:
        """A block at the lowest addresses where there is room, behind a free one if there is one."""
        block: Block | None = self._room(pool, size)
        if block is not None and not block.mapped:
            block = self._map(block, min(block.size, size))
        while block is not None and block.size < size:
            following = block.right
            assert following is not None
            block = self._map(following, min(size - block.size, following.size))
        if block is not None:
            pool.remove(block)
        return block

    def _room(self, pool: Pool, size: int) -> Block:
        """Free or unmapped blocks, one behind the other, for so many bytes (``find_expandable_block``): the first."""
        for _, block in pool.unmapped:
            first = block.left if block.left is not None and not block.left.in_use else block
            if _free_from(first, size):
                return first
        found = Block(pool, self.driver.address_of(ADDRESSES), ADDRESSES, mapped=False)
        pool.add(found)
        return found

    def _page(self, pool: Pool) -> int:
        return SMALL_SEGMENT if pool.small else self.settings.large_segment

    def _map(self, block: Block, size: int) -> Block | None:
        """Give its first pages memory, at least so many bytes; with its free neighbours they are one block."""
        pool = block.pool
        size = rounded_up(size, self._page(pool))
        if not self._has(size):
            return None
        pool.remove(block)
        if size < block.size:
            block, rest = block.first(size), block
            pool.add(rest)
        block.mapped = True
        self._told("segment_map", block.address, size, pool)
        block.merge(block.left)
        block.merge(block.right)
        pool.add(block)
        return block

    def release(self, block: Block) -> None:
        """The memory of its whole pages goes back to the driver (``unmap_block``)."""
        pool, page, base = block.pool, self._page(block.pool), _base(block)
        begin = base + rounded_up(block.address - base, page)
        end = block.address + block.size
        end -= (end - base) % page
        if begin >= end:
            return
        pool.remove(block)
        if begin > block.address:
            pool.add(block.first(begin - block.address))
        if end < block.address + block.size:
            block, rest = block.first(end - begin), block
            pool.add(rest)
        block.mapped = False
        self._told("segment_unmap", begin, end - begin, pool)
        block.merge(block.left)
        block.merge(block.right)
        if block.is_split:
            pool.add(block)


def _could_be(block: Block) -> int:
    """The bytes of a free block with the addresses behind it that have no memory yet."""
    following = block.right
    return block.size + (following.size if following is not None and not following.mapped else 0)


def _free_from(block: Block | None, size: int) -> bool:
    """Whether there are so many bytes of addresses from here on that nothing uses."""
    while block is not None and not block.in_use and size > 0:
        size -= block.size
        block = block.right
    return size <= 0


def _base(block: Block) -> int:
    """Where its segment begins."""
    while block.left is not None:
        block = block.left
    return block.address
