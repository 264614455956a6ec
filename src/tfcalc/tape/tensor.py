"""Tensors with shape, strides and storage, but without data; the calls of operations on them; and traces.

A model runs on a trace, which receives every operation that it calls.

Subclasses count (:mod:`tfcalc.tape.counting`), list shapes (:mod:`tfcalc.tape.shaping`), or lower operations to
kernels and track memory (:mod:`tfcalc.tape.interpreter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Protocol

from tfcalc.core.component import Cached, Component, Cost, Elementwise, Message, Weight
from tfcalc.core.number import Num, product
from tfcalc.core.traced import known, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.tape.memory_tracker import GraphNode, Storage, Value

Shape = tuple[Num, ...]
Strides = tuple[int, ...] | None
"""Distance in memory between two neighbours along each axis; None if sizes are symbols."""
PLAIN = {int}
"""Type of sizes that record no decisions: results for these are cached, as equal layers ask for the same ones."""


class Tensor(Value):
    """A tensor of this ``shape`` on a trace: a storage of its own, or a view of one.

    ``strides`` matter as some operations copy a tensor first that is not contiguous. ``reached``: whether backward
    reaches it, for traces that build no graph.
    """

    __slots__ = ("reached", "strides", "trace")

    def __init__(
        self,
        trace: Trace,
        storage: Storage,
        shape: Shape,
        dtype: str,
        strides: Strides = None,
        *,
        node: GraphNode | None = None,
        output: int = 0,
        reached: bool = False,
    ) -> None:
        self.storage = storage  # as in Value, without the call of super(): no object is created as often as this
        self.shape = shape
        self.dtype = dtype
        self.node = node
        self.output = output
        self.trace = trace
        self.strides = strides
        self.reached = reached

    @property
    def needs_gradient(self) -> bool:
        """True if backward reaches it."""
        return self.reached or self.node is not None

    @property
    def rows(self) -> Num:
        """Product of all axes but the last."""
        return product(self.shape[:-1])

    @property
    def width(self) -> Num:
        """Size of the last axis."""
        return self.shape[-1]

    @property
    def dense(self) -> bool:
        """True if it is contiguous in memory (``is_contiguous()``); assumed if the strides are not known."""
        return self.strides is None or not apart(self.shape, self.strides, dense(self.shape))


def dense(shape: Shape) -> Strides:
    """Return the strides of a new contiguous tensor.

    >>> dense((2, 3, 4))
    (12, 4, 1)
    """
    return _dense_remembered(shape) if {*map(type, shape)} == PLAIN else _dense(shape)


def _dense(shape: Shape) -> Strides:
    strides, step = [], 1
    for size in shape[::-1]:
        number = size if type(size) is int else known(size)  # most are ints: a call for each would dominate
        if number is None:
            return None
        strides.append(step)
        step *= number
    return tuple(strides[::-1])


def apart(shape: Shape, strides: Strides, others: Strides) -> bool:
    """Return whether two layouts of this shape differ; the stride of an axis of size 1 does not matter."""
    if strides is None or others is None or strides == others:
        return False
    return any(left != right and known(size) != 1 for size, left, right in zip(shape, strides, others, strict=True))


def viewed(shape: Shape, strides: Strides, into: Shape) -> Strides:
    """Return the strides with which the same memory has another shape; None if that takes a copy.

    Axes can be merged if they are adjacent in memory, and any axis can be split.
    Source: torch's computeStride (aten/src/ATen/TensorUtils.cpp).

    >>> viewed((2, 8, 4, 16), (512, 16, 128, 1), (16, 4, 16))  # heads before tokens: two batches cannot be merged
    >>> viewed((1, 8, 4, 16), (512, 16, 128, 1), (8, 4, 16))
    (16, 128, 1)
    """
    if strides is None:
        return None
    plain = {*map(type, shape), *map(type, strides), *map(type, into)} == PLAIN
    return _viewed_remembered(shape, strides, into) if plain else _viewed(shape, strides, into)


def _viewed(shape: Shape, strides: tuple[int, ...], into: Shape) -> Strides:
    if 0 in map(known, into):
        return dense(into)
    runs = _runs([known(size) or 0 for size in shape], strides)
    new: list[int] = []
    place, left, step = len(runs) - 1, runs[-1][0] if runs else 1, runs[-1][1] if runs else 1
    for size in reversed([known(axis) or 0 for axis in into]):
        while left == 1 and place > 0 and size != 1:
            place -= 1
            left, step = runs[place]
        if left % size:
            return None
        new.append(step)
        left //= size
        step *= size
    return tuple(reversed(new))


def _runs(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Merge axes that are adjacent in memory: the size of each run, and the stride within it."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = runs[-1][0] * size, stride
        else:
            runs.append((size, stride))
    return runs


def preserved(x: Tensor) -> Strides:
    """Return the strides of a new tensor with this one's order of axes in memory (torch.preserve_format)."""
    shape, strides = x.shape, x.strides
    if strides is None or strides == dense(shape):
        return strides
    plain = {*map(type, shape), *map(type, strides)} == PLAIN
    return _preserved_remembered(shape, strides) if plain else _preserved(shape, strides)


def _preserved(shape: Shape, strides: tuple[int, ...]) -> Strides:
    if not apart(shape, strides, dense(shape)):
        return strides
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    inside = dense(tuple(shape[axis] for axis in order))
    return None if inside is None else tuple(inside[order.index(axis)] for axis in range(len(shape)))


_dense_remembered, _viewed_remembered = lru_cache(maxsize=4096)(_dense), lru_cache(maxsize=4096)(_viewed)
_preserved_remembered = lru_cache(maxsize=4096)(_preserved)

CHANNELS_LAST = (1, 3, 2, 0)
"""Axes of a channels_last image tensor, from the innermost."""


def channels_last(shape: Shape) -> Strides:
    """Return the strides of a new tensor of images in torch.channels_last format."""
    inside = dense(tuple(shape[axis] for axis in reversed(CHANNELS_LAST)))
    return None if inside is None else tuple(inside[3 - CHANNELS_LAST.index(axis)] for axis in range(4))


def has_channels_last(x: Tensor) -> bool:
    """Return whether torch considers a tensor channels_last (is_channels_last_strides_2d)."""
    if x.strides is None or len(x.shape) != 4 or x.strides[1] == 0:
        return False
    least = 0
    for axis in CHANNELS_LAST:
        size, stride = known(x.shape[axis]) or 1, x.strides[axis]
        if stride < least or (axis == 0 and least == x.strides[1]):
            return False
        least = stride * size
    return True


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
    """Name and kind of an operation that gets a component of its own in the tree, though it has no weights.

    Where queries meet keys and values it is of the kind ``attend``, which selective checkpointing runs again; products
    of two other activations are ``mixing``, ``pool``, ``similarity``, one with a lone vector of weights is ``linear``.
    Kinds that decide something are named in :mod:`tfcalc.core.recomputation`; any other word only names a row.
    """

    name: str
    kind: str


class Within(NamedTuple):
    """An intermediate result of an operation: its name and shape.

    ``of`` are the names of the call's products and elementwise work that make it; what is no work is the ``operation``.
    """

    name: str
    shape: Shape
    of: tuple[str, ...]
    operation: str = ""


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


class Part(Protocol):
    """A module, as a trace sees it."""

    @property
    def name(self) -> str:
        """Name among the parts of its module."""
        ...

    @property
    def kind(self) -> str:
        """Kind of module, such as ``attention``, ``ffn`` or ``norm``."""
        ...

    @property
    def copies(self) -> Num:
        """Number of equal modules with weights of their own."""
        ...

    @property
    def passes(self) -> Num:
        """Number of times that each of them runs, with the same weights."""
        ...

    @property
    def active(self) -> Num | None:
        """Number of them that are active per token; None: all."""
        ...

    @property
    def parts(self) -> Iterator[Part]:
        """Submodules."""
        ...

    def own_params(self) -> Cost:
        """Return its own weights and buffers, without those of its parts."""
        ...

    def components(self) -> Iterator[Component]:
        """Yield it and its parts as components with weights and buffers alone, for a module that does not run."""
        ...


class Group(Protocol):
    """Equal layers, of which one runs for all ``copies``, at these ``places`` of their stack."""

    @property
    def name(self) -> str:
        """Name of the stack, with the places or the mark of this group."""
        ...

    @property
    def stack(self) -> str:
        """Name of the stack."""
        ...

    @property
    def layer(self) -> Part:
        """The layer that runs."""
        ...

    @property
    def copies(self) -> Num:
        """Number of layers in the group."""
        ...

    @property
    def places(self) -> tuple[int, ...] | None:
        """Indices of the layers in the stack; None: all."""
        ...

    @property
    def depth(self) -> Num:
        """Number of layers of the stack."""
        ...

    @property
    def mark(self) -> str:
        """Suffix that distinguishes them from layers that are otherwise equal."""
        ...

    @property
    def apart(self) -> bool:
        """True if they are listed separately even if others cost the same."""
        ...

    @property
    def stands_for(self) -> int:
        """Number of layers, itself included, in whose place this one runs; its saved bytes count that often."""
        ...

    @property
    def others(self) -> Sequence[str]:
        """Names of the other layers that it represents."""
        ...

    @property
    def place(self) -> tuple[int, int]:
        """Index among the unlike layers that represent others together, and the number of these."""
        ...

    @property
    def turn(self) -> int | None:
        """Index of its period in a row of repeating layers (one layer, or several unlike ones in turn)."""
        ...

    @property
    def under(self) -> int:
        """Number of layers of other kinds below them."""
        ...


class Ends(NamedTuple):
    """Numbers of layers at the bottom and at the top of a row that may differ from those of the same kind between them.

    The first and the last layer may differ in what is live beside them.
    """

    below: int
    above: int


WITH_BACKWARD, FORWARD_ALONE = Ends(1, 2), Ends(0, 1)
"""Backward has one more at the top, where it begins, and at the bottom, whose input may need no gradient."""


class Trace:
    """Base class of traces: runs a model's operations on tensors without data.

    ``emits_kernels``: operations run as the kernels that a library launches (for memory), rather than as one operation
    of the mathematics (for FLOPs).
    """

    emits_kernels = False
    every_layer = False
    """True if each layer of a stack runs, rather than one for all equal ones."""
    ends_alone = False
    """True if only the layers at the ends of a row of equal ones run, and one for the rest."""

    @property
    def gradients(self) -> bool:
        """True if gradients are recorded now (torch.is_grad_enabled)."""
        raise NotImplementedError

    def without_gradients(self) -> AbstractContextManager[None]:
        """Run the block without gradients (torch.no_grad)."""
        raise NotImplementedError

    def output_unused(self) -> AbstractContextManager[None]:
        """Run a block whose output is unused: no backward, but its saved tensors are live until then."""
        return self.without_gradients()

    def inside(self, part: Part) -> AbstractContextManager[None]:
        """Run the block as part of this module."""
        raise NotImplementedError

    def group(self, layers: Group) -> AbstractContextManager[None]:
        """Run the block as these layers of a stack."""
        raise NotImplementedError

    def like_others(self, x: Tensor) -> bool:
        """Return whether the first layer of a stack, which reads ``x``, costs and saves what the others do."""
        return x.needs_gradient

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """Return a weight of the running module, in the format of all weights or in a ``dtype`` of its own.

        More than one ``copies`` are one tensor with a first axis for them.
        """
        raise NotImplementedError

    def call(self, call: Call) -> Tensor:
        """Run an operation."""
        raise NotImplementedError

    def composite(self, call: Call, code: Callable[[], Tensor]) -> Tensor:
        """Run an operation that is one call in the mathematics, and ``code`` in a library.

        A trace that counts takes the costs of ``call``; one that emits kernels runs ``code``, kernel by kernel.
        """
        return code() if self.emits_kernels else self.call(call)

    def same_size(self, one: Num, other: Num) -> bool:
        """Return whether kernels run on two equal sizes.

        Where operations are counted, sizes may be symbols and stay apart.
        """
        return self.emits_kernels and value_of(one) == value_of(other)

    def beside(self, run: Callable[[], object]) -> None:
        """Count what ``run`` does with what runs here; where kernels run, it runs at another time."""
        if not self.emits_kernels:
            run()

    def turns(self, count: Num) -> AbstractContextManager[None]:
        """Run the block once for ``count`` iterations of a loop."""
        return nullcontext()

    def passes(self, times: Num) -> AbstractContextManager[None]:
        """Run the block once for ``times`` passes of the running module."""
        return nullcontext()

    def shares(self, name: str) -> AbstractContextManager[None]:
        """Run the block with the weights stored under this name; with ``""``, those of its own module."""
        return nullcontext()

    def again(self) -> AbstractContextManager[None]:
        """Run a block that backward always recomputes, whatever the checkpointing."""
        return nullcontext()

    def count(self, call: Call) -> None:
        """Count an operation whose result another one makes."""

    def checkpoint(
        self, run: Callable[..., Tensor], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> Tensor:
        """Call ``run``, saving only its inputs; backward reruns it (torch.utils.checkpoint).

        With ``by_operation`` some results are saved as well (:mod:`tfcalc.tape.interpreter`).
        """
        (result,) = self.checkpoints(
            lambda *given: [run(*given)], *given, early_stop=early_stop, by_operation=by_operation
        )
        return result

    def checkpoints(
        self, run: Callable[..., list[Tensor]], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> list[Tensor]:
        """Checkpoint a function of several results."""
        raise NotImplementedError

    def adapted(self, part: Part, x: Tensor, made: Tensor) -> Tensor:
        """Return ``made``, a linear map of ``x``, plus the output of the map's adapter if it has one."""
        return made

    def alias(self, name: str, weight: Tensor) -> None:
        """Register another name of a weight, for others to be tied to."""

    def forget(self, name: str) -> None:
        """Drop the weight of this name, so that another can be registered under it."""

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Return the same memory in another shape."""
        raise NotImplementedError

    def called(self, x: Tensor, name: str) -> Tensor:
        """Name ``x`` as papers do, for lists of shapes; return it."""
        return x

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Return a new tensor without a gradient: a mask, positions, a kernel's buffer."""
        raise NotImplementedError

    def data(self, shape: Shape, label: str) -> Tensor:
        """Return an input tensor that needs a gradient."""
        raise NotImplementedError

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Return views of parts of the last axis."""
        raise NotImplementedError

    def given(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Return a tensor that exists before the run, such as an input."""
        raise NotImplementedError

    # --- number formats, which matter only where kernels run

    def lower(self, x: Tensor) -> Tensor:
        """Cast an operand of a matrix product as autocast does."""
        return x

    def upper(self, x: Tensor) -> Tensor:
        """Cast an operand of an operation that autocast runs in fp32."""
        return x

    def lower_weight(self, weight: Tensor) -> Tensor:
        """Cast a parameter for a matrix product as autocast does."""
        return weight

    def to(self, x: Tensor, dtype: str) -> Tensor:
        """Return a copy in another format, or ``x`` itself if it has this one."""
        return x

    def no_autocast(self) -> AbstractContextManager[None]:
        """Run the block without autocast."""
        return nullcontext()

    def upper_format(self, dtype: str) -> str:
        """Return the format of an operation that autocast runs in fp32."""
        return dtype

    def statistics(self, dtype: str) -> str:
        """Return the format of a LayerNorm's mean and deviation."""
        return dtype

    @property
    def weights_format(self) -> str:
        """Format of the weights."""
        return "float32"

    @property
    def compute(self) -> str:
        """Format of matrix products."""
        return "float32"

    cuda = False
    """True if peculiarities of CUDA's kernels are counted (CPU kernels differ)."""
    packed = False
    """True if frozen matrices are quantized, and dequantized for each product."""
    in_int8 = False
    """True if products with quantized matrices are those of integers, and save their inputs (bitsandbytes' 8-bit)."""
    keeps_casts = False
    """True if they save them in the format of the product (bitsandbytes' 4-bit, until 0.43.1)."""
    packs_head = False
    """True if the output head is quantized like other matrices."""

    def until_layer_ends(self, x: Tensor) -> None:
        """Keep ``x`` live until the layer returns, as a local variable of the library's layer does."""

    def layer_ends(self) -> None:
        """Drop the local variables of the layer that returns."""

    def belongs(self, x: Tensor) -> None:
        """List ``x`` under the running module, whichever module saves it."""

    def until_loss_ends(self, x: Tensor) -> None:
        """Keep ``x`` live until the loss is computed, as a local variable of the model does."""

    def loss_ends(self) -> None:
        """Drop the local variables of the model."""

    def attribute(self, x: Tensor) -> None:
        """Note that a node has ``x`` as an attribute, which lives as long as the graph."""

    def step_before(self) -> None:
        """Allocate what the graph of the step before still has."""

    def returns(self, name: str, x: Tensor) -> None:
        """Note that the model returns ``x`` to its caller."""

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""


def stacked(weight: Weight, copies: Num) -> Shape:
    """Return the shape of ``copies`` of a weight in one tensor; a single copy has no axis for them."""
    return weight.shape if isinstance(copies, int) and copies == 1 else (copies, *weight.shape)
