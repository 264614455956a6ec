"""Calls: an operation on given tensors, with its result, costs and saved tensors."""

from typing import NamedTuple

from tfcalc.core.cost import Cached, Elementwise, Message
from tfcalc.core.number import Num
from tfcalc.tape.memory_tracker import Storage
from tfcalc.tape.tensor import Shape, Strides, Tensor

NOTHING, INPUTS, RESULTS = "nothing", "inputs", "results"
"""Kinds of tensors that an operation saves for backward: none, only inputs, or results as well."""


Matrices = tuple[Num, Num, Num, Num]
"""A batch of products of an M × K and a K × N matrix: batch size, M, K, N."""


class MatMul(NamedTuple):
    """A matrix product: its FLOPs are the product of its ``factors``; M×K by K×N is ``(2, M, K, N)``.

    ``matrices`` are the sizes of the operands, if given; a causal mask lowers the FLOPs but not these.

    Backward takes one product of the same size for each of the ``operands`` that need a gradient, and one more if a
    fused kernel recomputes it (``again``). ``overcounted`` is the number that FlopCounterMode counts beyond that, in
    error. ``used`` is 1, or 0 if the sizes are such that nothing reads the result: then it has no backward.
    """

    name: str
    factors: tuple[Num, ...]
    operands: tuple[Tensor | None, ...]
    again: bool = False
    overcounted: Num = 0
    used: Num = 1
    matrices: Matrices | None = None


class Leaf(NamedTuple):
    """Name and kind of an operation that gets a component of its own in the tree, though it has no weights."""

    name: str
    kind: str


class Within(NamedTuple):
    """An intermediate result of an operation: its name and shape.

    ``of`` are the names of the call's products and elementwise work that make it.
    """

    name: str
    shape: Shape
    of: tuple[str, ...]


class Call(NamedTuple):
    """An operation that is called: inputs, result, costs, and saved tensors.

    Attributes:
        name: PyTorch's or the field's name.
        inputs: tensors that it reads.
        shape: shape of the result.
        dtype: format of the result.
        products: its matrix products.
        elementwise: its work that is no matrix product.
        lookups: rows that it fetches from a table.
        cached: cache entries that it writes for later decoding steps.
        limit: largest number of keys that a query sees, in attention.
        leaf: name and kind of a component of its own in the tree; None: it counts in the module that calls it.
        saves: tensors that its backward needs.
        saves_result: whether its own result is one of them.
        passes: whether the gradient of its inputs is that of its result, without new memory.
        scratch: bytes of temporary buffers of its backward.
        shares: memory of its result, if that is not new.
        strides: strides of the result, if it is not contiguous.
        kernels: kernels that PyTorch's dispatcher runs for it (none for a view); None: one, of its own name.
        reads: bytes that they read, if not all of its inputs.
        messages: messages to other GPUs.
        kept_as: storage that is saved in place of its result, which backward recomputes from it.
        result: the papers' name of the result, if the operation's own name does not tell.
        within: intermediate results, in order.
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
        """Names of its kernels."""
        return (self.name,) if self.kernels is None else self.kernels

    @property
    def keeps(self) -> str:
        """Kind of tensors that it saves: NOTHING, INPUTS, or RESULTS, which exist only once it has run."""
        if self.saves_result or any(saved not in self.inputs for saved in self.saves):
            return RESULTS
        return INPUTS if self.saves else NOTHING
