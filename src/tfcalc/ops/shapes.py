"""Views of the same memory, and copies where a view will not do."""

from __future__ import annotations

from collections.abc import Sequence

from tfcalc.core.number import Num, same, total
from tfcalc.core.traced import known
from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Shape, Strides, Tensor, channels_last, has_channels_last, preserved, viewed


def reshape(x: Tensor, *shape: Num) -> Tensor:
    """Another shape: a view where the memory allows it, else a copy (torch.reshape)."""
    strides = viewed(x.shape, x.strides, shape)
    if strides is None and x.strides is not None:
        return copied(x, shape)
    return x.trace.view(x, shape, strides)


def called(x: Tensor, name: str) -> Tensor:
    """``x``, which the mathematics calls by this name."""
    return x.trace.called(x, name)


def transpose(x: Tensor, one: int, other: int) -> Tensor:
    """Two axes in each other's place: a view."""
    order = list(range(len(x.shape)))
    order[one], order[other] = order[other], order[one]
    strides = None if x.strides is None else tuple(x.strides[axis] for axis in order)
    return x.trace.view(x, tuple(x.shape[axis] for axis in order), strides)


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    """The axes in this order: a view."""
    strides = None if x.strides is None else tuple(x.strides[axis] for axis in order)
    return x.trace.view(x, tuple(x.shape[axis] for axis in order), strides)


def contiguous(x: Tensor) -> Tensor:
    """A copy in which the numbers stand in a row, or ``x`` itself where they do."""
    return x if x.dense else copied(x, x.shape)


def copied(x: Tensor, shape: Shape | None = None, name: str = "contiguous", strides: Strides = None) -> Tensor:
    """New memory with the same numbers, or some of them several times."""
    return x.trace.call(
        Call(name, (x,), x.shape if shape is None else shape, x.dtype, strides=strides, kernels=("clone",))
    )


def pad(x: Tensor, axis: int, length: Num) -> Tensor:
    """A copy in which an axis is so long; where nothing is added it is laid out as ``x`` is.

    Source: torch's constant_pad_nd, which also takes over the order of images whose channels come last.
    """
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    if x.trace.same_size(x.shape[axis], length):
        return copied(x, shape, "pad", preserved(x))
    return copied(x, shape, "pad", channels_last(shape) if has_channels_last(x) else None)


def expand(x: Tensor, *shape: Num) -> Tensor:
    """A view that reads the same numbers several times; the gradient is their sum."""
    if same(x.shape, shape):
        return x
    more = len(shape) - len(x.shape)
    strides = None
    if x.strides is not None:
        kept = zip(x.shape, shape[more:], x.strides, strict=True)
        strides = (0,) * more + tuple(step if known(own) == known(new) else 0 for own, new, step in kept)
    return x.trace.call(Call("expand", (x,), shape, x.dtype, shares=x.storage, strides=strides, kernels=()))


def picked(x: Tensor) -> Tensor:
    """A copy of what a list of one number picks out of an axis; the number is kept (torch's advanced indexing)."""
    place = x.trace.new((1,), "int64", "index")
    return x.trace.call(Call("index", (x,), x.shape, x.dtype, saves=(place,)))


def split(x: Tensor, widths: Sequence[Num], axis: int = -1) -> list[Tensor]:
    """Views of parts of an axis; their gradients are put together again."""
    axis %= len(x.shape)
    return x.trace.split(x, [(*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in widths], x.strides)


def narrow(x: Tensor, length: Num, axis: int = 1) -> Tensor:
    """``length`` places of an axis, such as the last ones: a view."""
    return x.trace.view(x, (*x.shape[:axis], length, *x.shape[axis + 1 :]), x.strides)


def first(x: Tensor) -> Tensor:
    """The first place of the second axis, which is gone: a view."""
    strides = None if x.strides is None else (x.strides[0], *x.strides[2:])
    return x.trace.view(x, (x.shape[0], *x.shape[2:]), strides)


def part(x: Tensor, axis: int, size: Num) -> Tensor:
    """So many places of an axis: a view, whose gradient is first as large as ``x``."""
    shape = list(x.shape)
    shape[axis] = size
    return x.trace.call(Call("slice", (x,), tuple(shape), x.dtype, shares=x.storage, strides=x.strides))


def select(x: Tensor, axis: int) -> Tensor:
    """One place of an axis, which is none then: a view, whose gradient is first as large as ``x``."""
    axis %= len(x.shape)
    strides = None if x.strides is None else x.strides[:axis] + x.strides[axis + 1 :]
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return x.trace.call(Call("select", (x,), shape, x.dtype, shares=x.storage, strides=strides))


def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """A view with an axis of one."""
    axis %= len(x.shape) + 1
    strides = None if x.strides is None else (*x.strides[:axis], 1, *x.strides[axis:])
    return x.trace.view(x, (*x.shape[:axis], 1, *x.shape[axis:]), strides)


def stack(parts: Sequence[Tensor], shape: Shape) -> Tensor:
    """Tensors beside each other, in new memory."""
    return parts[0].trace.call(Call("stack", tuple(parts), shape, parts[0].dtype))


def cat(parts: Sequence[Tensor], axis: int = -1, name: str = "cat") -> Tensor:
    """Tensors beside each other along an axis, in new memory, as wide as the widest of them."""
    shape = list(parts[0].shape)
    shape[axis] = total(part.shape[axis] for part in parts)
    wide = max((part.dtype for part in parts), key=WIDTHS.__getitem__)
    return parts[0].trace.call(Call(name, tuple(parts), tuple(shape), wide, kernels=("cat",)))


def beside(parts: Sequence[Tensor], shape: Shape) -> Tensor:
    """The same of this shape: where nothing runs, there is nothing beside what would stand before it."""
    wide = max((part.dtype for part in parts), key=WIDTHS.__getitem__)
    return parts[0].trace.call(Call("cat", tuple(parts), shape, wide))


def copied_into(parts: Sequence[Tensor], dtype: str) -> Tensor:
    """Tensors beside each other along the last axis of new memory, which each is copied into, in its format."""
    shape = (*parts[0].shape[:-1], total(part.width for part in parts))
    return parts[0].trace.call(Call("copy_", tuple(parts), shape, dtype))


def merge_heads(x: Tensor, width: Num) -> Tensor:
    """``b × a × l × d`` as ``b × l × a·d``: heads that stand behind each other are copied."""
    x = called(transpose(x, 1, 2), "heads of each token")
    return called(reshape(contiguous(x), *x.shape[:2], width), "heads merged")
