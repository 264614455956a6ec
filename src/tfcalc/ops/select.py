"""Indexing, top-k, gathering and masking."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.tape.tensor import Call, Shape, Tensor


def index(x: Tensor, places: Tensor, shape: Shape) -> Tensor:
    """``x[places]``, of this shape: saves the indices."""
    return x.trace.call(Call("index", (x,), shape, x.dtype, saves=(places,)))


def topk(x: Tensor, count: Num) -> tuple[Tensor, Tensor]:
    """Take the largest ``count`` elements of each row, and their indices, which are saved (torch.topk)."""
    shape = (*x.shape[:-1], count)
    places = x.trace.new(shape, "int64", "places of the largest")
    return x.trace.call(Call("topk", (x,), shape, x.dtype, saves=(places,))), places


def gather(x: Tensor, count: Num) -> tuple[Tensor, Tensor]:
    """Gather ``count`` elements of each row by given indices: saves ``x`` and these, returns both (torch.gather)."""
    shape = (*x.shape[:-1], count)
    places = x.trace.new(shape, "int64", "places")
    return x.trace.call(Call("gather", (x,), shape, x.dtype, saves=(x, places))), places


def masked_fill(x: Tensor) -> Tensor:
    """Fill masked elements with a number: saves the mask, a byte per element."""
    mask = x.trace.new(x.shape, "bool", "mask")
    return x.trace.call(Call("masked_fill", (x,), x.shape, x.dtype, saves=(mask,)))


def row_sums(x: Tensor) -> Tensor:
    """Sum each row, in fp32 under autocast: saves nothing."""
    return x.trace.call(Call("sum", (x,), (*x.shape[:-1], 1), x.trace.upper_format(x.dtype)))


def put(x: Tensor, places: Tensor) -> Tensor:
    """Put ``x`` at these indices of new zeros: saves the indices (torch's index_put_)."""
    return x.trace.call(Call("index_put_", (x,), x.shape, x.dtype, saves=(places,)))


def put_in_place(x: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
    """Put a ``vector`` in place of masked ones: saves the mask (torch's index_put_)."""
    shares, strides = x.storage, x.strides
    return x.trace.call(
        Call("index_put_", (x, vector), x.shape, x.dtype, saves=(mask,), shares=shares, strides=strides)
    )


def index_select(x: Tensor, axis: int, count: Num) -> Tensor:
    """Select ``count`` indices of an axis by a list, which is saved (torch.index_select)."""
    places = x.trace.new((count,), "int64", "places")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return x.trace.call(Call("index_select", (x,), shape, x.dtype, saves=(places,)))


def gathered(x: Tensor, count: Num, places: Shape) -> Tensor:
    """Gather ``count`` elements of each row by ``places`` that all heads share: saves both (torch.gather)."""
    where = x.trace.new(places, "int64", "places")
    return x.trace.call(Call("gather", (x,), (*x.shape[:-1], count), x.dtype, saves=(where, x)))
