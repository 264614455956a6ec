"""PyTorch's caching allocator of CUDA memory, simulated: which segments it asks the driver for, and what it reuses."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

from tfcalc.core.component import Component
from tfcalc.core.measure import bytes_of
from tfcalc.core.traced import EFFORT, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.tape.moments import Allocation
from tfcalc.training.states import Placed

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


class AllocatorSettings(NamedTuple):
    """Configuration of the allocator (``PYTORCH_ALLOC_CONF``).

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
        """Size of the block for a request of ``size`` bytes (``round_size``).

        >>> plain, divided = AllocatorSettings(), AllocatorSettings(divisions=(4,))
        >>> plain.rounded(1), plain.rounded(513), divided.rounded(1200 * 1024) // 1024
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
        """Return whether a block of this size is never split (``max_split_size``)."""
        return self.max_split_size is not None and block >= self.max_split_size


DEFAULT = AllocatorSettings()
"""PyTorch's defaults."""


def rounded_up(size: int, to: int) -> int:
    """The next multiple."""
    return -(-size // to) * to


def rounded_in_powers(size: int, divisions: int) -> int:
    """Round up to one of ``divisions`` equal steps between two powers of two (``roundup_power2_next_division``).

    >>> rounded_in_powers(1100, 4), rounded_in_powers(1024, 4), rounded_in_powers(1300, 4)
    (1280, 1024, 1536)
    """
    power = 1 << (size.bit_length() - 1)
    step = power >> (divisions.bit_length() - 1)
    if size == power:
        return size
    return rounded_up(size, step) if step else 2 * power


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
    """Addresses of new segments."""

    def address_of(self, size: int) -> int:
        """Address of a new segment of ``size`` bytes."""


class Ascending:
    """Gives each segment the next addresses, and none twice."""

    def __init__(self) -> None:
        self.next = SMALL_SEGMENT

    def address_of(self, size: int) -> int:
        """Address after all segments so far."""
        address = self.next
        self.next += rounded_up(size, SMALL_SEGMENT)
        return address


ADDRESS = 64
"""Bits of an address."""


class Block:
    """Block of ``size`` bytes at an address: a whole segment, or a piece between its neighbours.

    It is ``in_use``, or free. Only in a segment that expands are there addresses without memory (not ``mapped``).
    """

    __slots__ = ("address", "in_use", "left", "mapped", "pool", "right", "size")

    def __init__(self, pool: BlockPool, address: int, size: int, *, mapped: bool = True) -> None:
        self.pool, self.address, self.size = pool, address, size
        self.in_use = False
        self.mapped = mapped
        self.left: Block | None = None
        self.right: Block | None = None

    @property
    def is_split(self) -> bool:
        """Return whether it is only a piece of its segment."""
        return self.left is not None or self.right is not None

    def first(self, size: int) -> Block:
        """Split off its first ``size`` bytes as a block of their own; this block becomes the rest."""
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


class BlockPool:
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
        """Add a block that has become free, or lost its memory."""
        if block.mapped:
            key = block.size << ADDRESS | block.address
            insort(self.free, key)
            self.blocks[key] = block
        else:
            insort(self.unmapped, (block.address, block))

    def remove(self, block: Block) -> None:
        """Remove a block that is to be used or merged."""
        if block.mapped:
            key = block.size << ADDRESS | block.address
            del self.free[bisect_left(self.free, key)], self.blocks[key]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.address,))]

    def at_least(self, size: int) -> int:
        """Index of the smallest free block of at least ``size`` bytes; of equal ones the one at the lowest address."""
        return bisect_left(self.free, size << ADDRESS)

    def in_order(self) -> list[Block]:
        """The free blocks, the smallest first."""
        return [self.blocks[key] for key in self.free]


class OutOfMemory(Exception):
    """Raised where neither a free block nor the driver has enough memory."""


class CachingAllocator:
    """Blocks in segments that the driver was asked for one at a time (cudaMalloc).

    >>> allocator = CachingAllocator()
    >>> block = allocator.malloc(1000)
    >>> allocator.allocated, allocator.reserved
    (1024, 2097152)
    """

    def __init__(self, settings: AllocatorSettings = DEFAULT, driver: Driver | None = None) -> None:
        self.settings = settings
        self.driver = driver or Ascending()
        self.large: dict[int, BlockPool] = {}
        self.small: dict[int, BlockPool] = {}
        self.allocated = self.most_allocated = 0
        self.reserved = self.most_reserved = 0
        self.segment_events: list[SegmentEvent] = []
        self._rounded: dict[int, int] = {}
        self._keeps_whole = settings.max_split_size is not None

    def malloc(self, size: int, stream: int = 0) -> Block:
        """Return a block for ``size`` bytes, at least 1. Raises OutOfMemory."""
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
        """Free a block, and merge it with its free neighbours."""
        block.in_use = False
        self.allocated -= block.size
        left, right = block.left, block.right
        if left is not None and not left.in_use:
            block.merge(left)
        if right is not None and not right.in_use:
            block.merge(right)
        block.pool.add(block)

    def empty_cache(self) -> None:
        """Return every free segment to the driver (``release_cached_blocks``)."""
        for block in self.free_blocks():
            self.release(block)

    def release(self, block: Block) -> None:
        """Return a free segment to the driver; a piece of a segment stays."""
        if block.is_split:
            return
        block.pool.remove(block)
        self._told("segment_free", block.address, block.size, block.pool)

    def free_blocks(self) -> list[Block]:
        """Return the free blocks of all pools, large ones first."""
        return [block for pool in chain(self.large.values(), self.small.values()) for block in pool.in_order()]

    # --- what segments that expand do otherwise

    def _splits(self, block: Block, size: int) -> bool:
        """Return whether the rest of a block beyond ``size`` bytes becomes a block of its own (``should_split``)."""
        return block.pool.small or (block.size - size > SMALL and not self.settings.whole(size))

    def _best(self, pool: BlockPool, size: int) -> int:
        """The place of the free block that fits best; behind the last, where none does."""
        return bisect_left(pool.free, size << ADDRESS)  # as at_least, without another call

    def _segment(self, pool: BlockPool, size: int) -> Block | None:
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

    def _pool(self, size: int, stream: int) -> BlockPool:
        """The first time that a stream is given such a block."""
        small = size <= SMALL
        made = (self.small if small else self.large)[stream] = BlockPool(stream, small=small)
        return made

    def _too_large(self, block: int, size: int) -> bool:
        """Return whether a block that is never split is too large for a request of ``size`` (``get_free_block``)."""
        by = self.settings
        return by.whole(block) and (not by.whole(size) or block >= size + by.max_non_split_rounding)

    def _new_block(self, pool: BlockPool, size: int) -> Block:
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

    def _release_large(self, pool: BlockPool, size: int) -> bool:
        """Return to the driver a free, never split block that is large enough, or several that are together.

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

    def _told(self, action: str, address: int, size: int, pool: BlockPool) -> None:
        self.segment_events.append(SegmentEvent(action, address, size, pool.stream))
        self.reserved += size if action in ("segment_alloc", "segment_map") else -size
        self.most_reserved = max(self.most_reserved, self.reserved)


class ExpandableAllocator(CachingAllocator):
    """Blocks in segments whose addresses are set aside at once, and get memory as it is needed.

    >>> allocator = ExpandableAllocator()
    >>> block = allocator.malloc(30 * 2**20)
    >>> allocator.allocated // 2**20, allocator.reserved // 2**20
    (30, 40)
    """

    def _splits(self, _block: Block, _size: int) -> bool:
        return True

    def _best(self, pool: BlockPool, size: int) -> int:
        """A block that can grow counts as large as it can become."""
        place, free, blocks = pool.at_least(size), pool.free, pool.blocks
        while place + 1 < len(free) and _could_be(blocks[free[place + 1]]) < _could_be(blocks[free[place]]):
            place += 1
        return place

    def _segment(self, pool: BlockPool, size: int) -> Block | None:
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

    def _room(self, pool: BlockPool, size: int) -> Block:
        """First of adjacent free or unmapped blocks with ``size`` bytes in all (``find_expandable_block``)."""
        for _, block in pool.unmapped:
            first = block.left if block.left is not None and not block.left.in_use else block
            if _free_from(first, size):
                return first
        found = Block(pool, self.driver.address_of(ADDRESSES), ADDRESSES, mapped=False)
        pool.add(found)
        return found

    def _page(self, pool: BlockPool) -> int:
        return SMALL_SEGMENT if pool.small else self.settings.large_segment

    def _map(self, block: Block, size: int) -> Block | None:
        """Map its first pages, at least ``size`` bytes, and merge them with free neighbours."""
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
    """Return whether at least ``size`` bytes of addresses from here on are free or unmapped."""
    while block is not None and not block.in_use and size > 0:
        size -= block.size
        block = block.right
    return size <= 0


def _base(block: Block) -> int:
    """Address at which its segment begins."""
    while block.left is not None:
        block = block.left
    return block.address


STEPS = 2
"""Steps that are simulated: the first allocates the optimizer's states, later ones repeat the second."""
EVENTS_OF_A_UNIT = 10
"""Allocations and frees that take as long as a unit of effort (:mod:`tfcalc.core.traced`): about 1.3 µs each."""
STACKED = "experts"
GIVEN_BACK = ("segment_free", "segment_unmap")
"""What a segment that returns to the driver is called."""


class Reserved(NamedTuple):
    """Peaks in bytes: of the segments that PyTorch has from the driver, and of the blocks in use.

    Under a limit some of the segments may have been ``given_back``; where none was, there might as well be no limit.
    """

    reserved: int
    allocated: int
    given_back: bool = False


def reserved(
    states: Placed,
    beside: Sequence[Component],
    events: Sequence[Allocation],
    settings: AllocatorSettings = DEFAULT,
    *,
    gradients_resident: bool,
    steps: int = STEPS,
    before: Sequence[Allocation] = (),
) -> Reserved:
    """Simulate ``steps`` steps whose forward and backward pass are ``events``. Raises OutOfMemory under a limit.

    ``beside`` are allocated from the beginning: buffers, workspaces, what the loop does not free. So are gradients that
    have permanent buffers (``gradients_resident``); otherwise the events allocate them. What a trainer allocates and
    frees while it is set up comes ``before`` all else.

    ======================  ======================================================================
    before the first step   weights, what is beside them, master weights, what is gathered or
                            communicated in, and gradients that have buffers of their own: a block
                            for each tensor
    at its end              the optimizer's states, tensor by tensor
    at the end of each      what the optimizer's step needs, all at once; then gradients are freed
    ======================  ======================================================================

    Source: torch.optim makes ``exp_avg`` and ``exp_avg_sq`` of one parameter after another in its first step;
    ``zero_grad`` frees gradients (``set_to_none``).
    """
    EFFORT.spend((len(before) + steps * len(events)) // EVENTS_OF_A_UNIT)
    allocator = (ExpandableAllocator if settings.expandable_segments else CachingAllocator)(settings)
    device = states.device
    _run(allocator, before)
    standing = [device.weights, *beside, device.master, states.communication, states.gathered]
    for tree in (*standing, *((device.gradients,) if gradients_resident else ())):
        _all(allocator, tree)
    for step in range(steps):
        left = _run(allocator, events)
        if not step:
            _all(allocator, device.optimizer)
        for block in _all(allocator, states.step):
            allocator.free(block)
        for block in left:
            allocator.free(block)
    given_back = any(event.action in GIVEN_BACK for event in allocator.segment_events)
    return Reserved(allocator.most_reserved, allocator.most_allocated, given_back)


def sizes(tree: Component) -> Iterator[int]:
    """Bytes of each tensor of a tree, in order, copies too.

    Experts are stacked: what each of them holds is a part of one tensor.
    """
    own = [value_of(bytes_of(held.size, held.bits)) for held in tree.own.held]
    inside = [*own, *(size for part in tree.parts for size in sizes(part))]
    copies = value_of(tree.copies)
    if tree.kind == STACKED:
        yield from (copies * size for size in inside)
    else:
        for _ in range(copies):
            yield from inside


def _all(allocator: CachingAllocator, tree: Component) -> list[Block]:
    return [allocator.malloc(size) for size in sizes(tree) if size]


def _run(allocator: CachingAllocator, events: Sequence[Allocation]) -> list[Block]:
    """Run forward and backward; return the blocks that are live at the end."""
    live: dict[int, Block] = {}
    malloc, free = allocator.malloc, allocator.free
    for tensor, size, stream in events:
        if size:
            live[tensor] = malloc(size, stream)
        else:
            free(live.pop(tensor))
    return list(live.values())
