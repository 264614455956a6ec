"""Where two gradients of one tensor meet: torch adds the second to the first, where nothing else waits for that one."""

from __future__ import annotations

import pytest

from tfcalc.tape.memory_tracker import LeafNode, MemoryTracker, Value
from tfcalc.tape.tape import Tape

SIZE = 4 * 1000


def parameter(tape: Tape) -> Value:
    """A weight of 1,000 numbers."""
    return Value(tape.given((1000,), "float32", "weight"), (1000,), "float32", LeafNode("weight"))


def made(tape: Tape, name: str, *inputs: Value, passes: bool = False) -> Value:
    """The result of an operation that keeps nothing, as large as its first input."""
    storage = tape.new((1000,), "float32", name)
    return Value(storage, (1000,), "float32", tape.node(name, inputs, (), passes))


def most_in_backward(tape: Tape, loss: Value) -> int:
    """Beside the gradient of the loss, whose one number is 4 bytes."""
    tape.tracker.new_phase()
    tape.backward(loss)
    return tape.tracker.most.total


def three_products(tape: Tape) -> Value:
    """One number made of the sum of three products with the same weight; nothing of forward is there any more."""
    weight = parameter(tape)
    whole = made(tape, "product", weight)
    for _ in range(2):
        whole = made(tape, "add", whole, made(tape, "product", weight), passes=True)
    return Value(tape.new((1,), "float32", "loss"), (1,), "float32", tape.node("sum", [whole], ()))


@pytest.mark.parametrize(("in_place", "tensors"), [(True, 3), (False, 4)])
def test_gradients_of_one_weight_are_added_to_the_first(in_place: bool, tensors: int) -> None:
    """That of the products' sum, and the weight's first and second; or also the sum of these."""
    tape = Tape(MemoryTracker())
    tape.sums_in_place = in_place
    loss = three_products(tape)
    assert most_in_backward(tape, loss) == tensors * SIZE + 8
    assert tape.tracker.gradients == SIZE


@pytest.mark.parametrize("side_by_side", [True, False])
def test_a_gradient_that_something_else_waits_for_is_not_written_over(side_by_side: bool) -> None:
    """Of x + f(x) the gradient of x is that of the sum, which f's is made of; of x + (f(x) + g(x)) f still waits."""
    tape = Tape(MemoryTracker())
    x = made(tape, "x", parameter(tape))
    inner = made(tape, "f", x)
    if side_by_side:
        inner = made(tape, "add", inner, made(tape, "g", x), passes=True)
    whole = made(tape, "add", inner, x, passes=True)
    loss = Value(tape.new((1,), "float32", "loss"), (1,), "float32", tape.node("sum", [whole], ()))
    del x, inner, whole
    assert most_in_backward(tape, loss) == (3 if side_by_side else 2) * SIZE + 8


def test_nothing_is_added_to_a_view_in_place() -> None:
    """As a product hands on of its matrix's gradient: tests/test_h100.py has tied models that ran."""
    tape = Tape(MemoryTracker())
    first, second = tape.new((1000,), "float32"), tape.new((1000,), "float32")
    assert tape.sum_of(first, second) is first
    first.is_view = True
    assert tape.sum_of(first, second) not in (first, second)


@pytest.mark.torch
@pytest.mark.parametrize("uses", ["tied", "products", "tables"])
def test_torch_adds_to_no_view_in_place(uses: str) -> None:
    """Whether torch's profiler sees ``add`` or ``add_`` where two gradients of a matrix meet."""
    torch = pytest.importorskip("torch")
    functional, matrix = torch.nn.functional, torch.randn(50, 8, requires_grad=True)
    words, vectors = torch.arange(6), torch.randn(6, 8)
    tables = [functional.embedding(words, matrix) for _ in range(2)]
    products = [functional.linear(vectors, matrix) for _ in range(2)]
    loss = {
        "tied": functional.linear(tables[0], matrix).sum(),
        "products": (products[0] * products[1]).sum(),
        "tables": (tables[0] * tables[1]).sum(),
    }[uses]
    with torch.profiler.profile(record_shapes=True) as profiled:
        loss.backward()
    sums = [event.name for event in profiled.events() if [50, 8] in event.input_shapes and "aten::add" in event.name]
    assert sums == {"tied": ["aten::add"], "products": ["aten::add"], "tables": ["aten::add_"]}[uses]


@pytest.mark.torch
def test_torch_adds_gradients_to_the_first() -> None:
    """The memory of torch's own profiler, of a weight that is used three times, on real tensors."""
    torch = pytest.importorskip("torch")
    profiler = pytest.importorskip("torch.profiler")
    weight = torch.zeros((1000, 64), requires_grad=True)
    given = [torch.ones((8, 1000)) for _ in range(3)]
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profiled:
        sum((each @ weight).sum() for each in given).backward()
    live = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    assert 2 * 256_000 <= most < 2.2 * 256_000
