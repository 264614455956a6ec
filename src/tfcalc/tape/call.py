"""An operation on certain tensors, with all that there is to know of it."""

from typing import NamedTuple

from tfcalc.core.cost import Cached, Elementwise, Message
from tfcalc.core.number import Num
from tfcalc.tape.memory_tracker import Storage
from tfcalc.tape.tensor import Shape, Strides, Tensor

NOTHING, INPUTS, RESULTS = "nothing", "inputs", "results"
"""What an operation keeps for backward: nothing, only what it has read, or also something that it has made."""


Matrices = tuple[Num, Num, Num, Num]
"""So many products of an M × K and a K × N matrix: how many, M, K and N."""


class MatMul(NamedTuple):
    """A matrix product: its FLOPs are the product of its ``factors``; M×K by K×N is ``(2, M, K, N)``.

    ``matrices`` are the sizes of what is multiplied, where it is said; a mask leaves them, and may lower the FLOPs.

    Backward takes one product of the same size for each of the ``operands`` that need a gradient, and one more where a
    fused kernel computes it ``again``. ``overcounted`` are those that PyTorch's counter has beyond them, in error.
    A result that is ``used`` (1) or is not (0), as sizes decide, has a backward only then.
    """

    name: str
    factors: tuple[Num, ...]
    operands: tuple[Tensor | None, ...]
    again: bool = False
    overcounted: Num = 0
    used: Num = 1
    matrices: Matrices | None = None


class Leaf(NamedTuple):
    """Where an operation without weights stands in the tree: a leaf of its own, by its name and kind."""

    name: str
    kind: str


class Within(NamedTuple):
    """What an operation makes on the way to its result: its name, its shape, and the work of the call that makes it.

    ``of`` names products and passes over elements of the call.
    """

    name: str
    shape: Shape
    of: tuple[str, ...]


class Call(NamedTuple):
    """An operation that has been called: what it reads, what it makes, what it costs, and what backward needs.

    Attributes:
        name: as PyTorch or the field calls it.
        inputs: the tensors that it reads.
        shape: of the result.
        dtype: of the result.
        products: the matrix products that it is.
        elementwise: its work that is no matrix product.
        lookups: rows that it fetches from a table.
        cached: what it keeps from one decoding step to the next.
        limit: the number of keys that a query sees at the most, of attention.
        leaf: where it stands in the tree; None: in the module that calls it.
        saves: tensors that its backward needs.
        saves_result: whether its own result is one of them.
        passes: whether the gradient of its result is that of its inputs as it is.
        scratch: bytes that its backward needs for a moment.
        shares: the memory of its result, where that is not new.
        strides: of the result, where it is not dense.
        kernels: what PyTorch's dispatcher runs for it (nothing for a view); None: one, of its own name.
        reads: bytes that they read, where that is not all of its inputs.
        messages: what it sends to other devices.
        kept_as: what is kept in the place of its result, which backward makes again from it.
        result: what the mathematics calls the result, where the operation's own name does not say it.
        within: what it makes on the way, in order.
    """

    name: str
    inputs: tuple[Tensor | None, ...]
    shape: Shape
    dtype: str
    products: tuple[MatMul, ...] = ()
    elementwise: tuple[Elementwise, ...] = ()
    lookups: Num = 0
    cached: tuple[Cached, ...] = ()
    limit: Num | None = None
    leaf: Leaf | None = None
    saves: tuple[Tensor, ...] = ()
    saves_result: bool = False
    passes: bool = False
    scratch: Num = 0
    shares: Storage | None = None
    strides: Strides = None
    kernels: tuple[str, ...] | None = None
    reads: Num | None = None
    messages: tuple[Message, ...] = ()
    kept_as: Storage | None = None
    result: str = ""
    within: tuple[Within, ...] = ()

    @property
    def ran(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return (self.name,) if self.kernels is None else self.kernels

    @property
    def keeps(self) -> str:
        """Whether backward needs something that is only there once it has run."""
        if self.saves_result or any(each not in self.inputs for each in self.saves):
            return RESULTS
        return INPUTS if self.saves else NOTHING
