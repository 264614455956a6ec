"""The operations of PyTorch: what each makes, what it keeps for backward, and in which number format it runs.

What is kept follows torch's ``tools/autograd/derivatives.yaml``; which operations CUDA's autocast runs in which format,
``torch/amp`` (the op reference of torch.amp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tfcalc.core.number import Num, ceil_div, total
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.ledger import Ledger
from tfcalc.tape.tape import Tape
from tfcalc.tape.value import Value


class Numerics(NamedTuple):
    """In which format weights are, and which format CUDA's autocast gives to matrix products (none without it).

    ``statistics``: that of a LayerNorm's mean and deviation; by default fp32. ``aligned_masks``: whether rows of masks
    are filled up for the memory-efficient kernel, as CUDA's are. ``traced``: whether no one can read what numbers a
    mask has (FakeTensorMode, torch.compile), so that one of ones stays. ``packed``: whether the matrices that are not
    trained are quantized, and unpacked for each product.
    """

    weights: str = "float32"
    autocast: str | None = None
    statistics: str | None = None
    aligned_masks: bool = True
    traced: bool = False
    packed: bool = False

    @property
    def compute(self) -> str:
        """What matrix products run in."""
        return self.autocast or self.weights


class Torch(Tape):
    """A tape with PyTorch's operations.

    ``apart``: whether there is more than one sequence, so that a head's rows in all of them do not stand in one piece.
    """

    def __init__(self, ledger: Ledger, numerics: Numerics, *, apart: bool = True) -> None:
        super().__init__(ledger)
        self.numerics = numerics
        self.apart = apart
        self.casts: dict[int, Value] = {}

    # --- formats

    def to(self, x: Value, dtype: str) -> Value:
        """A copy in another format, or ``x`` itself."""
        return x if x.dtype == dtype else self.result("to", [x], x.elements, dtype, heads=x.heads)

    def lower(self, x: Value) -> Value:
        """What autocast gives to a matrix product."""
        cast = self.numerics.autocast
        return x if cast is None or x.dtype != "float32" else self.to(x, cast)

    def upper(self, x: Value) -> Value:
        """What autocast gives to an operation that it runs in fp32."""
        return x if self.numerics.autocast is None else self.to(x, "float32")

    def lower_weight(self, weight: Value) -> Value:
        """The same for a parameter: its copy is made once, and kept as long as autocast lasts."""
        if self.numerics.autocast is None or weight.dtype != "float32":
            return weight
        if not weight.needs_gradient:
            return self.to(weight, self.numerics.autocast)
        if id(weight.storage) not in self.casts:
            cast = self.casts[id(weight.storage)] = self.to(weight, self.numerics.autocast)
            cast.storage.home = tuple(place._replace(passes=1) for place in self.module)
        return self.casts[id(weight.storage)]

    @contextmanager
    def no_autocast(self) -> Iterator[None]:
        """Inside an operation that autocast has cast the inputs of, nothing is cast any more."""
        before, self.numerics = self.numerics, self.numerics._replace(autocast=None)
        try:
            yield
        finally:
            self.numerics = before

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        self.casts.clear()

    # --- matrix products

    def linear(self, x: Value, weight: Value, bias: Value | None, rows: Num, width: Num, *, unpacked: Num = 0) -> Value:
        """``x W + b``: keeps x for W's gradient and W for x's.

        ``unpacked`` bytes are those of a quantized W in the format of the product, each time that it is needed.
        """
        self.ledger.needed(unpacked)
        x, weight = self.lower(x), self.lower_weight(weight)
        bias = self.lower_weight(bias) if bias is not None else None
        saves = [*([x] if weight.needs_gradient else []), *([weight] if x.needs_gradient else [])]
        return self.result("linear", [x, weight, bias], rows * width, x.dtype, saves=saves, scratch=unpacked)

    def matmul(self, a: Value, b: Value, elements: Num) -> Value:
        """``A B`` for each head: keeps both, as copies where heads stand apart in memory."""
        a, b = self.lower(a), self.lower(b)
        if self.apart:
            a, b = self.contiguous(a), self.contiguous(b)
        saves = [*([a] if b.needs_gradient else []), *([b] if a.needs_gradient else [])]
        return self.result("matmul", [a, b], elements, a.dtype, saves=saves)

    def contiguous(self, x: Value) -> Value:
        """A copy of a view whose numbers do not stand in a row."""
        return self.result("contiguous", [x], x.elements, x.dtype) if x.heads else x

    def copied(self, x: Value, elements: Num, name: str = "copy", *, heads: bool = False) -> Value:
        """New memory with the same numbers, or some of them several times."""
        return self.result(name, [x], elements, x.dtype, heads=heads)

    def joined(self, parts: Sequence[Value], elements: Num) -> Value:
        """Tensors put beside each other, in new memory (torch.cat)."""
        wide = max((part.dtype for part in parts), key=lambda dtype: WIDTHS[dtype])
        return self.result("cat", parts, elements, wide)

    # --- one number at a time

    def add(self, a: Value, b: Value, elements: Num | None = None) -> Value:
        """``a + b``: keeps nothing."""
        wide = max(a.dtype, b.dtype, key=lambda dtype: WIDTHS[dtype])
        return self.result("add", [a, b], a.elements if elements is None else elements, wide, passes=True)

    def broadcast(self, x: Value, elements: Num) -> Value:
        """A view that reads the same numbers several times; the gradient is their sum."""
        same = x.elements == elements
        return self.result("expand", [x], elements, x.dtype, passes=same, shares=x.storage)

    def scaled(self, x: Value, name: str = "scale") -> Value:
        """``x`` times (or plus) a number: keeps nothing."""
        return self.result(name, [x], x.elements, x.dtype, heads=x.heads)

    def mul(self, a: Value, b: Value, elements: Num | None = None, name: str = "mul") -> Value:
        """``a · b``: keeps each for the other's gradient.

        A gradient is first as large and as wide as the result, and then summed or brought to its own format (torch's
        FunctionsManual.cpp, ``mul_tensor_backward``).
        """
        wide = max(a.dtype, b.dtype, key=lambda dtype: WIDTHS[dtype])
        saves = [*([a] if b.needs_gradient else []), *([b] if a.needs_gradient else [])]
        size = a.elements if elements is None else elements
        scratch = [size * WIDTHS[wide] - each.elements * WIDTHS[each.dtype] for each in (a, b) if each.needs_gradient]
        return self.result(name, [a, b], size, wide, saves=saves, heads=a.heads, scratch=total(scratch))

    def of_input(self, name: str, x: Value) -> Value:
        """An operation whose gradient needs what it read (gelu, silu, x²)."""
        return self.result(name, [x], x.elements, x.dtype, saves=[x], heads=x.heads)

    def of_result(self, name: str, x: Value, elements: Num | None = None) -> Value:
        """An operation whose gradient needs what it made (relu, tanh, sigmoid, exp, rsqrt)."""
        size = x.elements if elements is None else elements
        return self.result(name, [x], size, x.dtype, saves_result=True, heads=x.heads)

    def clipped_in_place(self, x: Value) -> Value:
        """``clamp_``: backward needs what was there before, so that a copy of it is kept."""
        if not (self.gradients and x.needs_gradient):
            return x
        before = Value(self.new(x.elements, x.dtype, "before clamp_"), x.elements, x.dtype)
        return self.result("clamp_", [x], x.elements, x.dtype, saves=[before], shares=x.storage, heads=x.heads)

    def pow(self, x: Value) -> Value:
        """``x²`` or ``x³``; autocast runs it in fp32.

        Backward makes ``x`` or ``x²`` first, and a multiple of it (torch's FunctionsManual.cpp, ``pow_backward``).
        """
        x = self.upper(x)
        scratch = 2 * x.elements * WIDTHS[x.dtype]
        return self.result("pow", [x], x.elements, x.dtype, saves=[x], heads=x.heads, scratch=scratch)

    def mean(self, x: Value, rows: Num) -> Value:
        """A number for each row: keeps nothing."""
        return self.result("mean", [x], rows, x.dtype)

    def dropout(self, x: Value, *, at_work: bool) -> Value:
        """Keeps one byte for each number: whether it was dropped (CUDA's native_dropout)."""
        if not at_work:
            return x
        mask = Value(self.new(x.elements, "bool", "dropout mask"), x.elements, "bool")
        return self.result("dropout", [x], x.elements, x.dtype, saves=[mask], heads=x.heads)

    # --- rows

    def softmax(self, x: Value, dtype: str | None = None) -> Value:
        """Keeps what it makes; in autocast, and where it is asked for, that is fp32."""
        dtype = dtype or ("float32" if self.numerics.autocast else x.dtype)
        return self.result("softmax", [x], x.elements, dtype, saves_result=True)

    def layer_norm(self, x: Value, rows: Num, weight: Value | None, bias: Value | None = None) -> Value:
        """Keeps what it reads, and each row's mean and deviation."""
        x = self.upper(x)
        kind = "float32" if x.dtype == "float32" else self.numerics.statistics or "float32"
        affine = [value for value in (weight, bias) if value is not None]
        mean, deviation = (Value(self.new(rows, kind, name), rows, kind) for name in ("mean", "1/std"))
        return self.result("layer_norm", [x, weight, bias], x.elements, x.dtype, saves=[x, mean, deviation, *affine])

    # --- tables and losses

    def embedding(self, table: Value, places: Value, width: Num) -> Value:
        """A row for each of these places, which are kept; the gradient is as large as the table."""
        return self.result("embedding", [table], places.elements * width, table.dtype, saves=[places])

    def split(self, x: Value, sizes: Sequence[Num]) -> list[Value]:
        """Views of parts; the gradient is put together again."""
        if not (self.gradients and x.needs_gradient):
            return [Value(x.storage, size, x.dtype) for size in sizes]
        node = self.node("split", [x], [], outputs=len(sizes))
        return [Value(x.storage, size, x.dtype, node, place) for place, size in enumerate(sizes)]

    def cross_entropy(self, logits: Value, targets: Value) -> Value:
        """Keeps the logarithm of the softmax, the targets, and the number of these.

        It asks for the softmax in the logits' own format; what picks the targets' is in fp32 under autocast, and keeps
        a copy (torch's cross_entropy_loss and nll_loss).
        """
        logarithms = self.upper(self.of_result("log_softmax", logits))
        weight = Value(self.new(1, logarithms.dtype, "number of targets"), 1, logarithms.dtype)
        return self.result("nll_loss", [logarithms], 1, logarithms.dtype, saves=[logarithms, targets, weight])

    # --- attention in one operation

    def fused_attention(
        self, q: Value, k: Value, v: Value, rows: Num, elements: Num, state: int, mask: Value | None = None
    ) -> Value:
        """Keeps q, k, v, mask, result, the logarithm of each row's sum, and the state of the random numbers."""
        q, k, v = (self.lower(each) for each in (q, k, v))
        sums = Value(self.new(rows, "float32", "log-sum-exp"), rows, "float32")
        state_ = Value(self.new(state, "int64", "random state"), state, "int64")
        saves = [q, k, v, *([mask] if mask is not None else []), sums, state_]
        made = self.result("fused_attention", [q, k, v, mask], elements, q.dtype, saves=saves, saves_result=True)
        return made.view(heads=False)

    def checkpoint(self, run: Callable[..., Value], *given: Value) -> Value:
        """``run`` without keeping anything but what it is given; backward runs it again (torch.utils.checkpoint)."""
        if not self.gradients:
            return run(*given)
        module = list(self.module)
        with self.without_gradients():
            result = run(*given)
        made = Value(result.storage, result.elements, result.dtype, heads=result.heads)
        made.node = self.node("checkpoint", given, given)

        def again() -> list[Value]:
            before, self.module = self.module, module
            computed = run(*given)
            self.module = before
            self.autocast_ends()
            return [computed]

        made.node.again = again
        return made


def padded(rows: Num, to: int = 32) -> Num:
    """Rows rounded up to whole blocks."""
    filled: Num = ceil_div(rows, to) * to
    return filled
