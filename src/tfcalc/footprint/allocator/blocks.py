"""Blocks of memory, each a piece of a segment, and the pools of those that are free."""

from __future__ import annotations

from bisect import bisect_left, insort

ADDRESS = 64
"""Bits of an address."""


class Block:
    """So many bytes at an address: a whole segment, or a piece between its neighbours.

    It is ``in_use``, or free. Only in a segment that expands are there addresses without memory (not ``mapped``).
    """

    __slots__ = ("address", "in_use", "left", "mapped", "pool", "right", "size")

    def __init__(self, pool: Pool, address: int, size: int, *, mapped: bool = True) -> None:
        self.pool, self.address, self.size = pool, address, size
        self.in_use = False
        self.mapped = mapped
        self.left: Block | None = None
        self.right: Block | None = None

    @property
    def is_split(self) -> bool:
        """Whether it is but a piece of its segment."""
        return self.left is not None or self.right is not None

    def first(self, size: int) -> Block:
        """Cut off its first bytes, as a block of their own; it keeps the rest."""
        block = Block(self.pool, self.address, size, mapped=self.mapped)
        block.left, block.right = self.left, self
        if self.left is not None:
            self.left.right = block
        self.left = block
        self.address, self.size = self.address + size, self.size - size
        return block

    def merge(self, other: Block | None) -> None:
        """Take a neighbour in, if there is one that is free, and has memory where this has (``try_merge_blocks``)."""
        if other is None or other.in_use or other.mapped != self.mapped:
            return
        other.pool.remove(other)
        if other is self.left:
            self.address, self.left = other.address, other.left
            if self.left is not None:
                self.left.right = self
        else:
            self.right = other.right
            if self.right is not None:
                self.right.left = self
        self.size += other.size


class Pool:
    """The free blocks for one stream, all small or all large, by their sizes and then by their addresses.

    Both are one number, by which they are ``free`` in order: a hundred thousand are looked up in a training step.
    """

    def __init__(self, stream: int, *, small: bool) -> None:
        self.stream, self.small = stream, small
        self.free: list[int] = []
        self.blocks: dict[int, Block] = {}
        self.unmapped: list[tuple[int, Block]] = []
        """Addresses of expandable segments that have no memory."""

    def add(self, block: Block) -> None:
        """It is free, or has no memory, from now on."""
        if block.mapped:
            key = block.size << ADDRESS | block.address
            insort(self.free, key)
            self.blocks[key] = block
        else:
            insort(self.unmapped, (block.address, block))

    def remove(self, block: Block) -> None:
        """It is not any more."""
        if block.mapped:
            key = block.size << ADDRESS | block.address
            del self.free[bisect_left(self.free, key)], self.blocks[key]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.address,))]

    def at_least(self, size: int) -> int:
        """The place of the smallest free block of so many bytes or more; of equals that at the lowest address."""
        return bisect_left(self.free, size << ADDRESS)

    def in_order(self) -> list[Block]:
        """The free blocks, the smallest first."""
        return [self.blocks[key] for key in self.free]
