"""The points that the arrays of a sweep make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfcalc.dimensions import check_size
from tfcalc.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


LARGEST_SWEEP = 10**7
"""Points of one sweep: their answers are a column of 80 MB, and so is each size."""


def broadcast(sizes: Mapping[str, ArrayLike]) -> tuple[dict[str, NDArray[Any]], tuple[int, ...]]:
    """The points of these sizes, which broadcast as numpy's arrays do: flat arrays of ints, and their shape.

    Raises UsageError for what are no whole numbers from 1 on, for shapes that do not fit, for no or too many points.
    """
    arrays = {name: _whole(name, np.asarray(size)) for name, size in sizes.items()}
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise UsageError(f"arrays of these shapes make no points: {shapes}", "give shapes that broadcast") from None
    count = 1
    for length in shape:
        count *= length
    if count > LARGEST_SWEEP:
        raise UsageError(f"{count:,} points are too many", f"sweep at most {LARGEST_SWEEP:,} at once")
    return {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}, shape


def grid(values: Mapping[str, Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Arrays that broadcast to each combination of the values, those of the last name next to each other."""
    each = [np.asarray(some, np.int64) for some in values.values()]
    return dict(zip(values, np.meshgrid(*each, indexing="ij", sparse=True), strict=True))


def _whole(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.size == 0:
        raise UsageError(f"{name} has no values", "give at least one")
    if array.dtype.kind not in "iu":
        raise UsageError(f"values of {name} are not whole numbers", "give an array of ints")
    for extreme in (int(array.min()), int(array.max())):
        try:
            check_size(name, extreme)
        except ValueError as error:
            raise UsageError(*error.args) from None
    return array.astype(np.int64, copy=False)
