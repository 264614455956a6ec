"""Views, and copies where a view is not possible."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.number import Num, same, total
from tfcalc.core.traced import known
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.tensor import Call, Shape, Strides, Tensor, channels_last, has_channels_last, preserved, viewed


def reshape(x: Tensor, *shape: Num) -> Tensor:
    """Reshape: a view if the layout allows it, else a copy (torch.reshape)."""
    strides = viewed(x.shape, x.strides, shape)
    if strides is None and x.strides is not None:
        return copied(x, shape)
    return x.trace.view(x, shape, strides)


def called(x: Tensor, name: str) -> Tensor:
    """Name ``x`` as papers do, for lists of shapes; return it."""
    return x.trace.called(x, name)


def transpose(x: Tensor, first: int, second: int) -> Tensor:
    """Swap two axes: a view."""
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    strides = None if x.strides is None else tuple(x.strides[axis] for axis in order)
    return x.trace.view(x, tuple(x.shape[axis] for axis in order), strides)


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    """Permute the axes: a view."""
    strides = None if x.strides is None else tuple(x.strides[axis] for axis in order)
    return x.trace.view(x, tuple(x.shape[axis] for axis in order), strides)


def contiguous(x: Tensor) -> Tensor:
    """Return ``x`` if it is contiguous, else a contiguous copy."""
    return x if x.dense else copied(x, x.shape)


def copied(x: Tensor, shape: Shape | None = None, name: str = "contiguous", strides: Strides = None) -> Tensor:
    """Copy to new memory, possibly with repeated elements, or with other strides."""
    return x.trace.call(
        Call(name, (x,), x.shape if shape is None else shape, x.dtype, strides=strides, kernels=("clone",))
    )


def pad(x: Tensor, axis: int, length: Num) -> Tensor:
    """Copy with an axis padded to ``length``; if nothing is added, with the layout of ``x``.

    Source: torch's constant_pad_nd, which also preserves channels_last.
    """
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    if x.trace.same_size(x.shape[axis], length):
        return copied(x, shape, "pad", preserved(x))
    return copied(x, shape, "pad", channels_last(shape) if has_channels_last(x) else None)


def expand(x: Tensor, *shape: Num) -> Tensor:
    """Expand axes of size 1: a view that repeats elements; their gradient is the sum."""
    if same(x.shape, shape):
        return x
    more = len(shape) - len(x.shape)
    strides = None
    if x.strides is not None:
        axes = zip(x.shape, shape[more:], x.strides, strict=True)
        strides = (0,) * more + tuple(step if known(own) == known(new) else 0 for own, new, step in axes)
    return x.trace.call(Call("expand", (x,), shape, x.dtype, shares=x.storage, strides=strides, kernels=()))


def picked(x: Tensor) -> Tensor:
    """Copy an axis by a list of one index, which is saved (torch's advanced indexing)."""
    place = x.trace.new((1,), "int64", "index")
    return x.trace.call(Call("index", (x,), x.shape, x.dtype, saves=(place,)))


def split(x: Tensor, widths: Sequence[Num], axis: int = -1) -> list[Tensor]:
    """Split an axis into views; backward concatenates their gradients."""
    axis %= len(x.shape)
    return x.trace.split(x, [(*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in widths], x.strides)


def narrow(x: Tensor, length: Num, axis: int = 1) -> Tensor:
    """Take ``length`` places of an axis, such as the last ones: a view."""
    return x.trace.view(x, (*x.shape[:axis], length, *x.shape[axis + 1 :]), x.strides)


def first(x: Tensor) -> Tensor:
    """Take the first place of the second axis, which is dropped: a view."""
    strides = None if x.strides is None else (x.strides[0], *x.strides[2:])
    return x.trace.view(x, (x.shape[0], *x.shape[2:]), strides)


def part(x: Tensor, axis: int, size: Num) -> Tensor:
    """Slice ``size`` places of an axis: a view, whose gradient is first as large as ``x``."""
    shape = list(x.shape)
    shape[axis] = size
    return x.trace.call(Call("slice", (x,), tuple(shape), x.dtype, shares=x.storage, strides=x.strides))


def select(x: Tensor, axis: int) -> Tensor:
    """Select one place of an axis, which is dropped: a view, whose gradient is first as large as ``x``."""
    axis %= len(x.shape)
    strides = None if x.strides is None else x.strides[:axis] + x.strides[axis + 1 :]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return x.trace.call(Call("select", (x,), shape, x.dtype, shares=x.storage, strides=strides))


def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """Insert an axis of size 1: a view."""
    axis %= len(x.shape) + 1
    strides = None if x.strides is None else (*x.strides[:axis], 1, *x.strides[axis:])
    return x.trace.view(x, (*x.shape[:axis], 1, *x.shape[axis:]), strides)


def stack(parts: Sequence[Tensor], shape: Shape) -> Tensor:
    """Stack tensors to this shape, in new memory."""
    return parts[0].trace.call(Call("stack", tuple(parts), shape, parts[0].dtype))


def cat(parts: Sequence[Tensor], axis: int = -1, name: str = "cat") -> Tensor:
    """Concatenate tensors along an axis, in new memory and in the widest of their formats."""
    shape = list(parts[0].shape)
    shape[axis] = total(part.shape[axis] for part in parts)
    wide = max((part.dtype for part in parts), key=WIDTHS.__getitem__)
    return parts[0].trace.call(Call(name, tuple(parts), tuple(shape), wide, kernels=("cat",)))


def beside(parts: Sequence[Tensor], shape: Shape) -> Tensor:
    """Concatenate tensors to this shape, for traces that do not run all parts."""
    wide = max((part.dtype for part in parts), key=WIDTHS.__getitem__)
    return parts[0].trace.call(Call("cat", tuple(parts), shape, wide))


def copied_into(parts: Sequence[Tensor], dtype: str) -> Tensor:
    """Copy tensors side by side into new memory of this format, along the last axis."""
    shape = (*parts[0].shape[:-1], total(part.width for part in parts))
    return parts[0].trace.call(Call("copy_", tuple(parts), shape, dtype))


def merge_heads(x: Tensor, width: Num) -> Tensor:
    """Reshape ``b × a × l × d`` to ``b × l × a·d``: a copy, unless the layout is by token already."""
    x = called(transpose(x, 1, 2), "heads of each token")
    return called(reshape(contiguous(x), *x.shape[:2], width), "heads merged")
