"""PyTorch's record of allocations, replayed.

No whole trace of a real run was found as text. The beginning of one is published: resnet18's parameters in "Visualizing
PyTorch memory usage over time" (zdevito.github.io, 2022-12-08). The others are written by hand in the same format.
"""

from __future__ import annotations

import pytest

from tfcalc.training.allocator import AllocatorSettings
from tfcalc.training.snapshots import ReplayError, replay

MIB = 2**20
BASE = 139838718214144

Entry = dict[str, object]


def entry(action: str, offset: int, size: int) -> Entry:
    return {"action": action, "addr": BASE + offset, "size": size, "stream": 0, "frames": []}


def both(offset: int, size: int) -> list[Entry]:
    """A free, as it is recorded where no other stream uses the block."""
    return [entry("free_requested", offset, size), entry("free_completed", offset, size)]


RESNET18 = [
    # a = cudaMalloc(139838718214144, 2.0MiB); b = a[0:36.8KiB]; c = a[37888:256.0B]; d = a[38400:256.0B];
    # e = a[38912:256.0B]; f = a[39424:256.0B]; g = a[39936:8.0B]
    entry("segment_alloc", 0, 2097152),
    entry("alloc", 0, 37632),  # 64 · 3 · 7 · 7 numbers of 4 bytes
    entry("alloc", 37888, 256),
    entry("alloc", 38400, 256),
    entry("alloc", 38912, 256),
    entry("alloc", 39424, 256),
    entry("alloc", 39936, 8),
]


def test_the_published_beginning_of_resnet18() -> None:
    allocator = replay(RESNET18)
    assert (allocator.allocated, allocator.reserved) == (39936 + 512, 2 * MIB)


SPLIT_AND_MERGED = [
    entry("segment_alloc", 0, 20 * MIB),
    entry("alloc", 0, 4 * MIB),
    entry("alloc", 4 * MIB, 3 * MIB),
    *both(0, 4 * MIB),
    entry("alloc", 0, 2 * MIB),  # the 4 MiB fit better than the 13 behind
    *both(4 * MIB, 3 * MIB),
    entry("segment_alloc", 64 * MIB, 20 * MIB),
    entry("alloc", 64 * MIB, 19 * MIB),  # 18 are free; 1 MiB is not split off
    *both(0, 2 * MIB),
    *both(64 * MIB, 19 * MIB),
    entry("segment_free", 0, 20 * MIB),
    entry("snapshot", 0, 0),
]


def test_split_merge_and_empty_cache() -> None:
    assert replay(SPLIT_AND_MERGED).reserved == 20 * MIB


EXPANDED = [
    entry("segment_map", 0, 40 * MIB),
    entry("alloc", 0, 30 * MIB),
    entry("segment_map", 40 * MIB, 20 * MIB),
    entry("alloc", 30 * MIB, 15 * MIB),
    *both(0, 30 * MIB),
    entry("segment_unmap", 0, 20 * MIB),
]


def test_expandable_segments() -> None:
    allocator = replay(EXPANDED, AllocatorSettings(expandable_segments=True))
    assert (allocator.allocated, allocator.reserved) == (15 * MIB, 40 * MIB)


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ([entry("segment_alloc", 0, 2 * MIB), entry("alloc", 512, 8)], "8 bytes are at"),
        ([entry("segment_alloc", 0, 20 * MIB), entry("alloc", 0, 8)], "for 8 bytes the driver is asked"),
        ([entry("alloc", 0, 8)], "which the trace does not have"),
        (both(0, 8), "was not allocated; record from the first allocation on"),
        ([*RESNET18, entry("segment_free", 0, 2 * MIB)], "goes back to the driver, and is in use"),
    ],
)
def test_what_cannot_have_been_is_refused(trace: list[Entry], said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        replay(trace)
