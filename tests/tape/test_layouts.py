"""Which tensors are views, and how new ones lie in memory: as PyTorch says."""

from __future__ import annotations

from itertools import permutations

import pytest

from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import broadcast
from tfcalc.tape.counting import NOWHERE, Counting
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Tensor, dense, preserved, viewed

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytestmark = pytest.mark.torch

SHAPES = [(2, 3, 4, 5), (1, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 5), (1, 1, 4, 6)]
INTO = [(-1, 5), (-1, 4, 5), (2, -1), (3, -1), (-1,), (-1, 1, 20), (-1, 3), (6, -1, 2)]


def told(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> list[int]:
    """The strides that mean something: an axis of one has no neighbours."""
    assert strides is not None
    return [stride for size, stride in zip(shape, strides, strict=True) if size != 1]


def ours(strides: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    return Tensor(Counting(), NOWHERE, shape, "float32", strides)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_what_can_be_viewed_and_where_copies_lie(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = torch.empty(shape).permute(order)
    here = ours(x.stride(), tuple(x.shape))
    assert here.dense == x.is_contiguous()
    assert told(tuple(x.shape), preserved(here)) == told(tuple(x.shape), torch.empty_like(x).stride())
    for into in INTO:
        try:
            there = x.reshape(into)
        except RuntimeError:
            continue  # it has not so many numbers
        strides = viewed(tuple(x.shape), x.stride(), tuple(there.shape))
        assert (strides is not None) == (there.data_ptr() == x.data_ptr())
        if strides is not None:
            assert told(tuple(there.shape), strides) == told(tuple(there.shape), there.stride())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_tensor_is_dense(shape: tuple[int, ...]) -> None:
    assert dense(shape) == torch.empty(shape).stride()


@pytest.mark.parametrize(
    ("one", "other"), [((2, 5, 8), (8,)), ((2, 1, 1), (2, 5, 8)), ((4, 1), (3, 1, 7)), ((1,), (1, 1)), ((), (2, 3))]
)
def test_two_shapes_are_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert broadcast(one, other) == tuple(torch.broadcast_shapes(one, other))


PRODUCTS = [
    ("bnd,bng->bgd", (10, 13, 8), (10, 13, 6)),
    ("bnd,bng->bdg", (10, 13, 8), (10, 13, 6)),
    ("bnqhd,bnkhd->bnhqk", (2, 5, 3, 4, 8), (2, 5, 7, 4, 8)),
    ("bnkhd,bnqhd->bnhqk", (2, 5, 7, 4, 8), (2, 5, 3, 4, 8)),
    ("bnhqk,bnkhd->bnqhd", (2, 5, 4, 3, 7), (2, 5, 7, 4, 8)),
]


@pytest.mark.parametrize(("equation", "one", "other"), PRODUCTS)
def test_what_einsum_makes_lies_as_torch_lays_it(equation: str, one: tuple[int, ...], other: tuple[int, ...]) -> None:
    trace = Interpreter(Tape(MemoryTracker()), Numerics())
    made = einsum(equation, *(trace.new(shape, "float32", "x") for shape in (one, other)))
    assert made.strides == torch.einsum(equation, torch.empty(one), torch.empty(other)).stride()
