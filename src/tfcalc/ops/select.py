"""Numbers that are found by their places."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Shape, Tensor


def index(x: Tensor, places: Tensor, shape: Shape) -> Tensor:
    """``x[places]``, of this shape: keeps the places."""
    return x.trace.call(Call("index", (x,), shape, x.dtype, saves=(places,)))


def topk(x: Tensor, count: Num) -> tuple[Tensor, Tensor]:
    """The largest ``count`` of each row, and where they stand, which is kept (torch.topk)."""
    shape = (*x.shape[:-1], count)
    places = x.trace.new(shape, "int64", "places of the largest")
    return x.trace.call(Call("topk", (x,), shape, x.dtype, saves=(places,))), places


def gather(x: Tensor, count: Num) -> tuple[Tensor, Tensor]:
    """``count`` of each row, and where they stand, which something else has said: keeps both (torch.gather)."""
    shape = (*x.shape[:-1], count)
    places = x.trace.new(shape, "int64", "places")
    return x.trace.call(Call("gather", (x,), shape, x.dtype, saves=(x, places))), places


def masked_fill(x: Tensor) -> Tensor:
    """A number in the place of those that a mask marks: keeps the mask, a byte for each."""
    mask = x.trace.new(x.shape, "bool", "mask")
    return x.trace.call(Call("masked_fill", (x,), x.shape, x.dtype, saves=(mask,)))


def row_sums(x: Tensor) -> Tensor:
    """Each row's sum, which autocast makes in fp32: keeps nothing."""
    return x.trace.call(Call("sum", (x,), (*x.shape[:-1], 1), x.trace.upper_format(x.dtype)))


def put(x: Tensor, places: Tensor) -> Tensor:
    """``x`` at these places of new zeros: keeps the places (torch's index_put_)."""
    return x.trace.call(Call("index_put_", (x,), x.shape, x.dtype, saves=(places,)))


def put_in_place(x: Tensor, vector: Tensor, mask: Tensor) -> Tensor:
    """A ``vector`` in the place of those that a mask marks: keeps the mask (torch's index_put_)."""
    shares, strides = x.storage, x.strides
    return x.trace.call(
        Call("index_put_", (x, vector), x.shape, x.dtype, saves=(mask,), shares=shares, strides=strides)
    )


def index_select(x: Tensor, axis: int, count: Num) -> Tensor:
    """The first ``count`` of an axis, by a list of their numbers, which is kept (torch.index_select)."""
    places = x.trace.new((count,), "int64", "places")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return x.trace.call(Call("index_select", (x,), shape, x.dtype, saves=(places,)))


def gathered(x: Tensor, count: Num, places: Shape) -> Tensor:
    """``count`` numbers of each row, by ``places`` that all heads share: keeps both (torch.gather)."""
    where = x.trace.new(places, "int64", "places")
    return x.trace.call(Call("gather", (x,), (*x.shape[:-1], count), x.dtype, saves=(where, x)))
