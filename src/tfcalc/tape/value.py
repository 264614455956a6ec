"""Tensors of a tape, the operations that made them, and what these keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tfcalc.core.number import Num, product
from tfcalc.tape.memory_tracker import Place, Storage


class Value:
    """A tensor: a storage, or a view of one. ``node`` made it, where a gradient reaches it."""

    __slots__ = ("dtype", "node", "output", "shape", "storage")

    def __init__(
        self, storage: Storage, shape: tuple[Num, ...], dtype: str, node: Node | None = None, output: int = 0
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.dtype = dtype
        self.node = node
        self.output = output

    @property
    def elements(self) -> Num:
        """How many numbers it has."""
        return product(self.shape)

    @property
    def needs_gradient(self) -> bool:
        """Whether backward reaches it."""
        return self.node is not None


class Node:
    """An operation that has run: what it keeps, and where the gradients of its inputs go.

    ``passes`` says of each input whether its gradient is the output's own (a sum, a view) rather than a new tensor.
    ``scratch`` are bytes that its backward needs beside the gradients. ``ready`` are the inputs' gradients where these
    are not new memory: they were computed in forward, or are written over what was kept.
    """

    __slots__ = ("again", "inputs", "name", "passes", "pending", "ready", "saved", "scratch")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Value | None],
        saved: Iterable[Value],
        passes: bool,
        scratch: Num,
        outputs: int,
    ) -> None:
        self.name = name
        self.inputs = [(v.node, v.output, v.shape, v.dtype) if v is not None else None for v in inputs]
        self.saved = [value.storage.kept_as or value.storage for value in saved]
        self.passes = passes
        self.scratch = scratch
        self.pending: list[Storage | None] = [None] * outputs
        self.again: Callable[[], Sequence[Value]] | None = None
        self.ready: Sequence[Storage | None] = ()
        for storage in self.saved:
            storage.keep()

    def awaits(self, output: int, gradient: Storage) -> None:
        """This is what has come so far of the gradient of an output."""
        before, self.pending[output] = self.pending[output], gradient
        gradient.waiting += 1
        if before is not None:
            _not_awaited(before)

    def taken(self) -> list[Storage | None]:
        """The gradients of its outputs, which nothing waits for any more."""
        given, self.pending = self.pending, [None] * len(self.pending)
        for gradient in given:
            if gradient is not None:
                _not_awaited(gradient)
        return given

    def ended(self) -> None:
        """What it kept is not needed any more."""
        for storage in self.saved:
            storage.release()
        self.saved = []
        self.again = None  # which refers to the node, and to what it has read


def _not_awaited(gradient: Storage) -> None:
    """A node does not wait for it any more."""
    gradient.waiting -= 1
    if gradient.is_gradient and not gradient.waiting:
        gradient.tracker.left(gradient)


class Crossing(Node):
    """A place in the order of nodes where something is done when backward comes to it."""

    __slots__ = ("crossed",)

    def __init__(self, crossed: Callable[[], None]) -> None:
        super().__init__("crossing", (), (), False, 0, 0)
        self.crossed = crossed


class Leaf(Node):
    """A parameter: its gradient stays, or is freed as soon as it is complete, if the parameter is stepped then.

    It is complete when all that ``uses`` the parameter has added to it. What is no weight has no ``shape``.
    """

    __slots__ = ("gradient", "shape", "uses")

    def __init__(self, name: str, shape: tuple[Num, ...] | None = None) -> None:
        super().__init__(name, (), (), False, 0, 1)
        self.gradient: Storage | None = None
        self.shape = shape
        self.uses = 0


class Kept(NamedTuple):
    """A storage that backward needs: the module that it belongs to, the first that keeps it, for which operation.

    It may wait in the host's memory (``on_host``).
    """

    storage: Storage
    module: tuple[Place, ...]
    operation: str
    keeper: str
    on_host: bool = False

    @property
    def copies(self) -> Num:
        """How many of it there are, where a module stands for several equal ones."""
        return product(place.copies * place.passes for place in self.module)

    @property
    def path(self) -> str:
        """The module's name, dotted."""
        return ".".join(place.name for place in self.module)
