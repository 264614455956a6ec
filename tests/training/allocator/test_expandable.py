"""Expandable segments by hand: pages of 20 MiB for large blocks and of 2 MiB for small ones."""

from __future__ import annotations

import pytest

from tfcalc.training.allocator import AllocatorSettings, ExpandableAllocator, OutOfMemory

MIB = 2**20


def mapped(allocator: ExpandableAllocator) -> list[tuple[str, int, int]]:
    """What was mapped and unmapped: where from the first address on, and how many MiB."""
    base = allocator.segment_events[0].address
    return [(each.action, (each.address - base) // MIB, each.size // MIB) for each in allocator.segment_events]


def test_a_segment_grows_by_pages_and_keeps_no_slivers() -> None:
    """30 MiB need two pages, 5 are on the second, and 8 more are on the 5 that are left of it and on a third."""
    allocator = ExpandableAllocator()
    blocks = [allocator.malloc(size * MIB) for size in (30, 5, 8)]
    assert [(block.address - blocks[0].address) // MIB for block in blocks] == [0, 30, 35]
    assert mapped(allocator) == [("segment_map", 0, 40), ("segment_map", 40, 20)]
    assert (allocator.allocated, allocator.reserved) == (43 * MIB, 60 * MIB)


def test_what_is_left_of_a_block_is_split_off_whatever_its_size() -> None:
    """11 MiB of a page of 20: without expandable segments they would have 12 of their own."""
    allocator = ExpandableAllocator()
    assert allocator.malloc(11 * MIB).size == 11 * MIB
    assert [block.size for block in allocator.free_blocks()] == [9 * MIB]


def test_small_blocks_have_a_segment_of_their_own() -> None:
    allocator = ExpandableAllocator()
    allocator.malloc(5 * MIB)
    allocator.malloc(1)
    assert [event.size // MIB for event in allocator.segment_events] == [20, 2]


def test_whole_pages_go_back() -> None:
    """Of 0 to 30 MiB, free, only the first page is empty: 30 to 60 are in use."""
    allocator = ExpandableAllocator()
    first, _ = allocator.malloc(30 * MIB), allocator.malloc(30 * MIB)
    assert allocator.reserved == 60 * MIB
    allocator.free(first)
    allocator.empty_cache()
    assert mapped(allocator)[2:] == [("segment_unmap", 0, 20)]
    assert allocator.reserved == 40 * MIB
    allocator.malloc(25 * MIB)  # 0 to 20 are mapped again, and 20 to 25 are those that stayed
    assert mapped(allocator)[3:] == [("segment_map", 0, 20)]


def test_a_segment_without_memory_is_gone() -> None:
    allocator = ExpandableAllocator()
    allocator.free(allocator.malloc(30 * MIB))
    allocator.empty_cache()
    assert (allocator.reserved, allocator.free_blocks()) == (0, [])
    allocator.malloc(10 * MIB)
    assert allocator.segment_events[-1].address != allocator.segment_events[0].address


def test_pages_move_where_the_driver_has_no_more() -> None:
    """40 MiB of 60 are free, in the small pool and at the lower end of the large one; both are needed for 50."""
    allocator = ExpandableAllocator(AllocatorSettings(limit=60 * MIB))
    low, high = allocator.malloc(40 * MIB), allocator.malloc(15 * MIB)
    allocator.free(low)
    with pytest.raises(OutOfMemory):
        allocator.malloc(50 * MIB)  # high is on a page of its own: 40 MiB are the most
    allocator.free(high)
    assert allocator.malloc(50 * MIB).size == 50 * MIB
    assert allocator.most_reserved == 60 * MIB


def test_a_free_block_that_can_grow_is_taken_last() -> None:
    """12 MiB are free between two blocks, and 10 at the end, which could grow: for 9 MiB the 12 fit better."""
    allocator = ExpandableAllocator()
    allocator.malloc(8 * MIB)
    between = allocator.malloc(12 * MIB)
    address = between.address
    allocator.malloc(10 * MIB)
    allocator.free(between)
    assert [block.size // MIB for block in allocator.free_blocks()] == [10, 12]
    assert allocator.malloc(9 * MIB).address == address
