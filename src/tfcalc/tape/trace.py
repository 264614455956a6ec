"""What a model is run on: every operation that it calls is told to a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call
from tfcalc.tape.tensor import Shape, Strides, Tensor


class Part(Protocol):
    """A module that runs."""

    @property
    def name(self) -> str:
        """Its name among the parts of its module."""
        ...

    @property
    def kind(self) -> str:
        """What it is."""
        ...

    @property
    def copies(self) -> Num:
        """How many of it there are."""
        ...

    @property
    def passes(self) -> Num:
        """How often each of them runs, with the same weights."""
        ...

    @property
    def active(self) -> Num | None:
        """How many of them a token goes through; None: all."""
        ...

    @property
    def parts(self) -> Iterator[Part]:
        """The modules in it."""
        ...

    def own_params(self) -> Cost:
        """Its own weights and buffers, without those of its parts."""
        ...

    def components(self) -> Iterator[Component]:
        """What it and its parts hold."""
        ...


class Group(Protocol):
    """Layers that are alike, of which one runs for all ``copies``, at these ``places`` of their stack."""

    @property
    def name(self) -> str:
        """That of the stack, with what tells it from other groups."""
        ...

    @property
    def stack(self) -> str:
        """The name of the stack."""
        ...

    @property
    def layer(self) -> Part:
        """One of them."""
        ...

    @property
    def copies(self) -> Num:
        """How many they are."""
        ...

    @property
    def places(self) -> tuple[int, ...] | None:
        """Where they stand; None: everywhere."""
        ...

    @property
    def depth(self) -> Num:
        """How many layers the stack has."""
        ...

    @property
    def mark(self) -> str:
        """What tells them from layers that are otherwise alike."""
        ...

    @property
    def apart(self) -> bool:
        """Whether they are told from others even where they cost the same."""
        ...

    @property
    def stands_for(self) -> int:
        """How many layers leave behind what this one does, where it runs in their place."""
        ...

    @property
    def others(self) -> Sequence[str]:
        """The names of the layers that it stands for beside itself."""
        ...

    @property
    def place(self) -> tuple[int, int]:
        """Which one it is of those that stand for others together, and how many these are."""
        ...

    @property
    def turn(self) -> int | None:
        """Which turn of a row it belongs to, in which equal layers follow each other, or several in turn."""
        ...

    @property
    def under(self) -> int:
        """How many layers of other kinds are below them."""
        ...


class Trace:
    """Runs a model's operations on tensors that have sizes alone.

    ``gradients``: whether backward will come. ``emits_kernels``: whether operations run as the kernels that a library
    makes of them (for what is live when), rather than as the one that the mathematics has (for what is counted).
    """

    emits_kernels = False
    every_layer = False
    """Whether each layer of a stack runs, rather than one for all that are alike."""
    ends_alone = False
    """Whether of a row of equal layers only those at its ends run, and one for the rest."""

    @property
    def gradients(self) -> bool:
        """Whether backward will come."""
        raise NotImplementedError

    def without_gradients(self) -> AbstractContextManager[None]:
        """What runs now is not reached by backward (torch.no_grad)."""
        raise NotImplementedError

    def output_unused(self) -> AbstractContextManager[None]:
        """Nothing reads what runs now, so that backward passes it by; but what it would need is kept until then."""
        return self.without_gradients()

    def inside(self, part: Part) -> AbstractContextManager[None]:
        """What runs now belongs to this module."""
        raise NotImplementedError

    def group(self, layers: Group) -> AbstractContextManager[None]:
        """What runs now are these layers of a stack."""
        raise NotImplementedError

    def like_others(self, x: Tensor) -> bool:
        """Whether the first layer of a stack that reads ``x`` costs and keeps what the others do."""
        return x.needs_gradient

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """A tensor that the module holds which runs now, in the format of all weights or in one of its own.

        So many ``copies`` of it are one, with an axis for them.
        """
        raise NotImplementedError

    def call(self, call: Call) -> Tensor:
        """Run an operation."""
        raise NotImplementedError

    def composite(self, call: Call, code: Callable[[], Tensor]) -> Tensor:
        """Run an operation that is one to the mathematics, and ``code`` to a library.

        Where operations are counted, the call is, and of what it saves only whether there is any; where kernels run,
        those of the code do, and save what they say.
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
        """What runs now is one turn of a loop for so many."""
        return nullcontext()

    def passes(self, times: Num) -> AbstractContextManager[None]:
        """What runs now is one turn of the module that runs, for so many."""
        return nullcontext()

    def shares(self, name: str) -> AbstractContextManager[None]:
        """What runs now has the weights that go by this name, wherever it runs; by none, those of its own place."""
        return nullcontext()

    def again(self) -> AbstractContextManager[None]:
        """What runs now is computed once more in backward, however a model is trained."""
        return nullcontext()

    def count(self, call: Call) -> None:
        """Count an operation whose result something else makes."""

    def checkpoint(
        self, run: Callable[..., Tensor], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> Tensor:
        """``run`` without keeping anything but what it is given; backward runs it again (torch.utils.checkpoint).

        Some results are kept ``by_operation`` (:mod:`tfcalc.tape.selected`).
        """
        (made,) = self.checkpoints(
            lambda *given: [run(*given)], *given, early_stop=early_stop, by_operation=by_operation
        )
        return made

    def checkpoints(
        self, run: Callable[..., list[Tensor]], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> list[Tensor]:
        """The same of what makes several."""
        raise NotImplementedError

    def adapted(self, part: Part, x: Tensor, made: Tensor) -> Tensor:
        """What a linear map has ``made`` of ``x``, and what its adapter makes of it, where it has one."""
        return made

    def alias(self, name: str, weight: Tensor) -> None:
        """Another name of a weight, by which others are tied to it."""

    def forget(self, name: str) -> None:
        """Another table goes by this name from now on."""

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """The same memory in another shape."""
        raise NotImplementedError

    def called(self, x: Tensor, name: str) -> Tensor:
        """``x``, which the mathematics calls by this name: only lists of results tell it."""
        return x

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """A tensor that nothing is computed from: a mask, positions, what a kernel keeps."""
        raise NotImplementedError

    def data(self, shape: Shape, label: str) -> Tensor:
        """One that is given, and whose gradient is asked for."""
        raise NotImplementedError

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Views of parts of the last axis."""
        raise NotImplementedError

    def given(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """A tensor that is there before anything runs."""
        raise NotImplementedError

    # --- number formats, which matter only where kernels run

    def lower(self, x: Tensor) -> Tensor:
        """What autocast gives to a matrix product."""
        return x

    def upper(self, x: Tensor) -> Tensor:
        """What autocast gives to an operation that it runs in fp32."""
        return x

    def lower_weight(self, weight: Tensor) -> Tensor:
        """The same for a parameter."""
        return weight

    def to(self, x: Tensor, dtype: str) -> Tensor:
        """A copy in another format, or ``x`` itself."""
        return x

    def no_autocast(self) -> AbstractContextManager[None]:
        """Nothing is cast for what runs now."""
        return nullcontext()

    def upper_format(self, dtype: str) -> str:
        """The format that autocast gives to an operation that it runs in fp32."""
        return dtype

    def statistics(self, dtype: str) -> str:
        """The format of a LayerNorm's mean and deviation."""
        return dtype

    @property
    def weights_format(self) -> str:
        """The format that weights are in."""
        return "float32"

    @property
    def compute(self) -> str:
        """What matrix products run in."""
        return "float32"

    cuda = False
    """Whether what is peculiar to CUDA's own kernels counts."""
    packed = False
    """Whether the matrices that are not trained are quantized, and unpacked for each product."""
    keeps_inputs = False
    """Whether such products keep what they read."""

    def until_layer_ends(self, x: Tensor) -> None:
        """A variable of the layer has it until the layer ends, though nothing reads it any more."""

    def layer_ends(self) -> None:
        """What its variables had is forgotten."""

    def belongs(self, x: Tensor) -> None:
        """It belongs to the module that runs now, whichever keeps it."""

    def until_loss_ends(self, x: Tensor) -> None:
        """A variable of the whole model has it until there is a loss."""

    def loss_ends(self) -> None:
        """What the model's variables had is forgotten."""

    def returns(self, name: str, x: Tensor) -> None:
        """The model gives it to its caller."""

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""


def stacked(weight: Weight, copies: Num) -> Shape:
    """The shape of so many ``copies`` of a weight in one tensor; a single one has no axis for them."""
    return weight.shape if isinstance(copies, int) and copies == 1 else (copies, *weight.shape)
