"""Traces: a model runs on one, which receives every operation that it calls.

Subclasses count (:mod:`tfcalc.tape.counting`), list shapes (:mod:`tfcalc.tape.shaping`), or lower operations to
kernels and track memory (:mod:`tfcalc.tape.interpreter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Shape, Strides, Tensor


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
    """Numbers of layers of a row that run before and after the one that represents the rest.

    The first and the last layer may differ in what is live beside them; and the one behind the represented layers frees
    what all of these handed on. Of several unlike layers that repeat, it is the number of their periods.
    """

    below: int
    above: int


WITH_BACKWARD, FORWARD_ALONE = Ends(2, 3), Ends(1, 2)
"""Backward needs one more at the top, where it begins, and at the bottom, whose input may need no gradient."""


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
        """Whether kernels run on two equal sizes; where operations are counted, sizes may be symbols and stay apart."""
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

        With ``by_operation`` some results are saved as well (:mod:`tfcalc.tape.selected`).
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
    keeps_inputs = False
    """True if products with quantized matrices save their inputs (bitsandbytes' 8-bit)."""

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

    def returns(self, name: str, x: Tensor) -> None:
        """Note that the model returns ``x`` to its caller."""

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""


def stacked(weight: Weight, copies: Num) -> Shape:
    """Return the shape of ``copies`` of a weight in one tensor; a single copy has no axis for them."""
    return weight.shape if isinstance(copies, int) and copies == 1 else (copies, *weight.shape)
