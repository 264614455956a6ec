"""Tensors with shape, strides and storage, but without data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tfcalc.core.number import Num, product
from tfcalc.core.traced import known
from tfcalc.tape.value import Node, Value

if TYPE_CHECKING:
    from tfcalc.tape.memory_tracker import Storage
    from tfcalc.tape.trace import Trace  # a circle for types alone: a tensor knows the trace that its operations run on

Shape = tuple[Num, ...]
Strides = tuple[int, ...] | None
"""Distance in memory between two neighbours along each axis; None if sizes are symbols."""
PLAIN = {int}
"""Type of sizes that record no decisions: results for these are cached, as equal layers ask for the same ones."""


class Tensor(Value):
    """A tensor of this ``shape`` on a trace: a storage of its own, or a view of one.

    ``strides`` matter as some operations copy a tensor first that is not contiguous. ``reached``: whether backward
    reaches it, for traces that build no graph.
    """

    __slots__ = ("reached", "strides", "trace")

    def __init__(
        self,
        trace: Trace,
        storage: Storage,
        shape: Shape,
        dtype: str,
        strides: Strides = None,
        *,
        node: Node | None = None,
        output: int = 0,
        reached: bool = False,
    ) -> None:
        self.storage = storage  # as in Value, without the call of super(): no object is created as often as this
        self.shape = shape
        self.dtype = dtype
        self.node = node
        self.output = output
        self.trace = trace
        self.strides = strides
        self.reached = reached

    @property
    def needs_gradient(self) -> bool:
        """True if backward reaches it."""
        return self.reached or self.node is not None

    @property
    def rows(self) -> Num:
        """Product of all axes but the last."""
        return product(self.shape[:-1])

    @property
    def width(self) -> Num:
        """Size of the last axis."""
        return self.shape[-1]

    @property
    def dense(self) -> bool:
        """True if it is contiguous in memory (``is_contiguous()``); assumed if the strides are not known."""
        return self.strides is None or not apart(self.shape, self.strides, dense(self.shape))


def dense(shape: Shape) -> Strides:
    """Return the strides of a new contiguous tensor.

    >>> dense((2, 3, 4))
    (12, 4, 1)
    """
    return _dense_remembered(shape) if {*map(type, shape)} == PLAIN else _dense(shape)


def _dense(shape: Shape) -> Strides:
    strides, step = [], 1
    for size in shape[::-1]:
        number = size if type(size) is int else known(size)  # most are ints: a call for each would dominate
        if number is None:
            return None
        strides.append(step)
        step *= number
    return tuple(strides[::-1])


def apart(shape: Shape, strides: Strides, others: Strides) -> bool:
    """Return whether two layouts of this shape differ; the stride of an axis of size 1 does not matter."""
    if strides is None or others is None or strides == others:
        return False
    return any(left != right and known(size) != 1 for size, left, right in zip(shape, strides, others, strict=True))


def viewed(shape: Shape, strides: Strides, into: Shape) -> Strides:
    """Return the strides with which the same memory has another shape; None if that takes a copy.

    Axes can be merged if they are adjacent in memory, and any axis can be split.
    Source: torch's computeStride (aten/src/ATen/TensorUtils.cpp).

    >>> viewed((2, 8, 4, 16), (512, 16, 128, 1), (16, 4, 16))  # heads before tokens: two batches cannot be merged
    >>> viewed((1, 8, 4, 16), (512, 16, 128, 1), (8, 4, 16))
    (16, 128, 1)
    """
    if strides is None:
        return None
    plain = {*map(type, shape), *map(type, strides), *map(type, into)} == PLAIN
    return _viewed_remembered(shape, strides, into) if plain else _viewed(shape, strides, into)


def _viewed(shape: Shape, strides: tuple[int, ...], into: Shape) -> Strides:
    if 0 in map(known, into):
        return dense(into)
    runs = _runs([known(size) or 0 for size in shape], strides)
    new: list[int] = []
    place, left, step = len(runs) - 1, runs[-1][0] if runs else 1, runs[-1][1] if runs else 1
    for size in reversed([known(axis) or 0 for axis in into]):
        while left == 1 and place > 0 and size != 1:
            place -= 1
            left, step = runs[place]
        if left % size:
            return None
        new.append(step)
        left //= size
        step *= size
    return tuple(reversed(new))


_dense_remembered, _viewed_remembered = lru_cache(maxsize=4096)(_dense), lru_cache(maxsize=4096)(_viewed)


def _runs(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Merge axes that are adjacent in memory: the size of each run, and the stride within it."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = runs[-1][0] * size, stride
        else:
            runs.append((size, stride))
    return runs


def preserved(x: Tensor) -> Strides:
    """Return the strides of a new tensor with this one's order of axes in memory (torch.preserve_format)."""
    strides = x.strides
    if strides is None or x.dense:
        return strides
    order = sorted(range(len(x.shape)), key=lambda axis: -strides[axis])
    inside = dense(tuple(x.shape[axis] for axis in order))
    return None if inside is None else tuple(inside[order.index(axis)] for axis in range(len(x.shape)))


CHANNELS_LAST = (1, 3, 2, 0)
"""Axes of a channels_last image tensor, from the innermost."""


def channels_last(shape: Shape) -> Strides:
    """Return the strides of a new tensor of images in torch.channels_last format."""
    inside = dense(tuple(shape[axis] for axis in reversed(CHANNELS_LAST)))
    return None if inside is None else tuple(inside[3 - CHANNELS_LAST.index(axis)] for axis in range(4))


def has_channels_last(x: Tensor) -> bool:
    """Return whether torch considers a tensor channels_last (is_channels_last_strides_2d)."""
    if x.strides is None or len(x.shape) != 4 or x.strides[1] == 0:
        return False
    least = 0
    for axis in CHANNELS_LAST:
        size, stride = known(x.shape[axis]) or 1, x.strides[axis]
        if stride < least or (axis == 0 and least == x.strides[1]):
            return False
        least = stride * size
    return True
