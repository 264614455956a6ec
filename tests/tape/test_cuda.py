"""What CUDA's kernels do and a CPU's do not: by hand, from aten's sources."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfcalc.ops.elementwise import pointwise, scaled
from tfcalc.ops.products import linear
from tfcalc.ops.rows import softmax
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Tensor

NUMBERS = 6
FOUR = 4 * NUMBERS
TWO = 2 * NUMBERS


def most(numerics: Numerics, operation: Callable[[Tensor], Tensor]) -> tuple[int, int]:
    """The bytes that are live at most, in forward and in backward, beside a given tensor of 2 x 3 numbers."""
    tape = Tape(MemoryTracker())
    made = operation(Interpreter(tape, numerics).data((2, 3), "x"))
    forward = tape.tracker.new_phase().total
    tape.backward(made)
    return forward, tape.tracker.most.total


@pytest.mark.parametrize(
    ("weights", "cuda", "forward", "backward"),
    [
        ("float32", False, FOUR, FOUR + FOUR + FOUR),  # result, its gradient, the input's
        ("float32", True, FOUR, FOUR + FOUR + FOUR + FOUR),  # and their product
        ("float16", True, FOUR, FOUR + FOUR + TWO + FOUR),  # half_to_float: the input's gradient has 16 bits
        ("bfloat16", True, FOUR + FOUR, FOUR + FOUR + FOUR + FOUR),  # the kernel reads and writes fp32
    ],
)
def test_softmax_multiplies_its_gradient_by_its_result(weights: str, cuda: bool, forward: int, backward: int) -> None:
    assert most(Numerics(weights, cuda=cuda), lambda x: softmax(x, "float32")) == (forward, backward)


def test_its_logarithm_does_not() -> None:
    assert most(Numerics(cuda=True), lambda x: pointwise("log_softmax", x)) == (FOUR, FOUR + FOUR + FOUR)


@pytest.mark.parametrize(("packed", "unpacked"), [(False, 0), (True, 3 * 5 * 4)])
def test_only_what_is_quantized_is_unpacked_for_a_product(packed: bool, unpacked: int) -> None:
    def product(x: Tensor) -> Tensor:
        weight = x.trace.new((3, 5), "float32", "W")  # not trained
        return linear(x, weight, packed=True)

    weight, result = 3 * 5 * 4, 2 * 5 * 4
    forward, backward = most(Numerics(packed=packed), product)
    assert forward == weight + unpacked + result
    assert backward == weight + result + result + FOUR + unpacked  # the result, its gradient, the input's


@pytest.mark.parametrize(("in_int8", "kept"), [(False, 0), (True, FOUR)])
def test_products_of_8_bit_matrices_keep_what_they_read(in_int8: bool, kept: int) -> None:
    tape = Tape(MemoryTracker())
    trace = Interpreter(tape, Numerics(packed=True, in_int8=in_int8))
    x = pointwise("sigmoid", trace.data((2, 3), "x"))  # keeps its result anyway
    y = scaled(x)
    linear(y, trace.given((3, 5), "float32", "W"), packed=True)
    assert tape.tracker.saved == FOUR + kept


@pytest.mark.parametrize(("rows", "copies"), [(1, 0), (2, 1)])
def test_a_single_row_is_multiplied_with_packed_numbers(rows: int, copies: int) -> None:
    """Of bitsandbytes' ``gemv_4bit``, in inference; more rows have a copy of the matrix."""
    tape = Tape(MemoryTracker())
    trace = Interpreter(tape, Numerics(packed=True))
    with trace.without_gradients():
        linear(trace.given((rows, 3), "float32", "x"), trace.given((3, 5), "float32", "W"), packed=True)
    assert tape.tracker.most.total == 4 * (5 * rows + copies * 3 * 5)


@pytest.mark.parametrize("rows", [1, 7])
def test_a_product_of_llm_int8_has_its_integers_beside_its_result(rows: int) -> None:
    """``CA`` in int8 with a scale for each row, ``out32`` in int32, and its dequantized copy in fp16."""
    tape = Tape(MemoryTracker())
    trace = Interpreter(tape, Numerics("bfloat16", packed=True, in_int8=True))
    with trace.without_gradients():
        linear(trace.given((rows, 8), "bfloat16", "x"), trace.given((8, 5), "bfloat16", "W"), packed=True)
    assert tape.tracker.most.total == rows * 8 + 4 * rows + (4 + 2 + 2) * rows * 5


def test_4_bit_products_kept_what_they_read_in_their_own_format_until_bitsandbytes_0_43() -> None:
    """``ctx.tensors = (A, B)`` of MatMul4Bit, whose A Linear4bit has brought to the format that it computes in."""
    saved = {}
    for old in (False, True):
        tape = Tape(MemoryTracker())
        trace = Interpreter(tape, Numerics(autocast="bfloat16", packed=True, keeps_casts=old))
        x = pointwise("sigmoid", trace.data((2, 3), "x"))
        linear(x, trace.given((3, 5), "float32", "W"), packed=True)
        saved[old] = tape.tracker.saved
    assert saved[True] - saved[False] == 2 * 3 * 2
