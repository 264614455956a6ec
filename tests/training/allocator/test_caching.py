"""The caching allocator by hand: each number follows from the rules of c10/cuda/CUDACachingAllocator.cpp."""

from __future__ import annotations

import pytest

from tfcalc.training.allocator import AllocatorSettings, CachingAllocator, OutOfMemory

MIB = 2**20


def actions(allocator: CachingAllocator) -> list[tuple[str, float]]:
    """What the driver was asked, and for how many MiB."""
    return [(event.action, event.size / MIB) for event in allocator.segment_events]


@pytest.mark.parametrize(
    ("asked", "block", "segment"),
    [
        (1, 512, 2 * MIB),  # kMinBlockSize, kSmallBuffer
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),  # kSmallSize is small
        (MIB + 1, MIB + 512, 20 * MIB),  # kLargeBuffer; 19 MiB are left over, more than 1
        (10 * MIB - 1, 10 * MIB, 10 * MIB),  # rounded to 10 MiB first, which is kMinLargeAlloc
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),  # kRoundLarge; 2 MiB − 512 are left over, more than 1 MiB
        (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),  # 1 MiB + 512 are left over
        (11 * MIB, 12 * MIB, 12 * MIB),  # 1 MiB is left over, not more: the block keeps it
    ],
)
def test_a_first_block_and_its_segment(asked: int, block: int, segment: int) -> None:
    allocator = CachingAllocator()
    assert allocator.malloc(asked).size == block
    assert (allocator.allocated, allocator.reserved) == (block, segment)


def test_small_blocks_share_a_segment() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.malloc(1000) for _ in range(2048)]
    assert [block.address - blocks[0].address for block in blocks[:3]] == [0, 1024, 2048]
    assert (allocator.allocated, allocator.reserved) == (2 * MIB, 2 * MIB)
    allocator.malloc(1)
    assert allocator.reserved == 4 * MIB


def test_small_and_large_blocks_are_apart() -> None:
    """16 MiB of a segment for large blocks are free, and a small one takes a segment of its own."""
    allocator = CachingAllocator()
    allocator.malloc(4 * MIB)
    allocator.malloc(4)
    assert actions(allocator) == [("segment_alloc", 20), ("segment_alloc", 2)]


def test_free_neighbours_become_one_block() -> None:
    allocator = CachingAllocator()
    first, second, third = (allocator.malloc(4 * MIB) for _ in range(3))
    allocator.free(first)
    allocator.free(third)  # and the 8 MiB behind it
    assert [block.size for block in allocator.free_blocks()] == [4 * MIB, 12 * MIB]
    allocator.free(second)
    assert [block.size for block in allocator.free_blocks()] == [20 * MIB]
    assert allocator.malloc(19 * MIB).size == 20 * MIB  # 1 MiB more is not split off
    assert allocator.reserved == 20 * MIB


def test_the_smallest_block_that_fits_is_taken_and_split() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.malloc(size * MIB) for size in (24, 16, 12)]
    addresses = [block.address for block in blocks]
    for block in blocks:
        allocator.free(block)
    taken = allocator.malloc(14 * MIB)
    assert (taken.address, taken.size) == (addresses[1], 14 * MIB)
    assert [block.size // MIB for block in allocator.free_blocks()] == [2, 12, 24]
    assert allocator.reserved == 52 * MIB


def test_of_equal_blocks_that_at_the_lowest_address() -> None:
    allocator = CachingAllocator()
    first, second = allocator.malloc(12 * MIB), allocator.malloc(12 * MIB)
    allocator.free(second)
    allocator.free(first)
    assert allocator.malloc(12 * MIB).address == first.address


def test_blocks_of_another_stream_are_not_reused() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(12 * MIB, stream=0))
    allocator.malloc(12 * MIB, stream=7)
    assert allocator.reserved == 24 * MIB
    allocator.malloc(12 * MIB, stream=0)
    assert (allocator.reserved, allocator.most_allocated) == (24 * MIB, 24 * MIB)


def test_cached_blocks_go_back_where_the_driver_has_no_more() -> None:
    """20 + 16 of 40 MiB are reserved; 24 more fit once the free 20 are given back."""
    allocator = CachingAllocator(AllocatorSettings(limit=40 * MIB))
    first = allocator.malloc(20 * MIB)
    allocator.malloc(16 * MIB)
    allocator.free(first)
    allocator.malloc(24 * MIB)
    assert actions(allocator)[2:] == [("segment_free", 20), ("segment_alloc", 24)]
    assert (allocator.reserved, allocator.most_reserved) == (40 * MIB, 40 * MIB)


def test_fragments_do_not_go_back() -> None:
    """Of a segment of 20 MiB 5 are in use between 5 and 10 that are free; 20 + 12 is more than 30."""
    allocator = CachingAllocator(AllocatorSettings(limit=30 * MIB))
    first, _ = allocator.malloc(5 * MIB), allocator.malloc(5 * MIB)
    allocator.free(first)
    with pytest.raises(OutOfMemory, match="5,242,880 allocated, 20,971,520 reserved"):
        allocator.malloc(12 * MIB)


def test_blocks_beyond_max_split_size_stay_whole() -> None:
    allocator = CachingAllocator(AllocatorSettings(max_split_size=40 * MIB))
    allocator.free(allocator.malloc(50 * MIB))
    allocator.malloc(8 * MIB)
    assert actions(allocator) == [("segment_alloc", 50), ("segment_alloc", 20)]
    assert allocator.malloc(45 * MIB).size == 50 * MIB


def test_a_whole_block_is_not_taken_for_much_less() -> None:
    """62 is not below 42 + 20 (``max_non_split_rounding``)."""
    allocator = CachingAllocator(AllocatorSettings(max_split_size=40 * MIB))
    allocator.free(allocator.malloc(62 * MIB))
    allocator.malloc(42 * MIB)
    assert actions(allocator) == [("segment_alloc", 62), ("segment_alloc", 42)]


def test_whole_blocks_go_back_first_and_only_as_many_as_are_needed() -> None:
    """Of 50, 60 and 12 MiB, all free, of 130: for 70 more the largest two that are kept whole suffice."""
    allocator = CachingAllocator(AllocatorSettings(max_split_size=40 * MIB, limit=130 * MIB))
    for block in [allocator.malloc(size * MIB) for size in (50, 60, 12)]:
        allocator.free(block)
    allocator.malloc(70 * MIB)
    assert actions(allocator)[3:] == [("segment_free", 60), ("segment_free", 50), ("segment_alloc", 70)]


@pytest.mark.parametrize(
    ("divisions", "asked", "block"),
    [
        # test_cuda.py's test_allocator_settings: 84 MiB, and power2_div(nbytes, div_factor)
        ((4,), 84 * MIB, 96 * MIB),  # 64 + 2 · 64/4
        ((8,) * 7 + (2,) * 3 + (1,) * 6, 84 * MIB, 88 * MIB),  # [64:8,128:2,256:2,512:2,1024:1,>:1]: 64 + 3 · 64/8
        ((8,) * 7 + (2,) * 3 + (1,) * 6, 400 * MIB, 512 * MIB),  # 256 + 2 · 256/2
        ((4,), 64 * MIB, 64 * MIB),
        ((4,), 2048, 2048),  # not more than 512 · 4: to multiples of 512
        ((4,), 1500, 1536),
        ((4,), 2100, 2560),  # 2048 + 2048/4
    ],
)
def test_divisions_of_powers_of_two(divisions: tuple[int, ...], asked: int, block: int) -> None:
    assert AllocatorSettings(divisions=divisions).rounded(asked) == block
