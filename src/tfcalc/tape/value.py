"""Values and nodes of the graph: tensors, the operations that made them, and what these save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tfcalc.core.number import Num, product
from tfcalc.tape.memory_tracker import Place, Storage


class Value:
    """A tensor: a storage, or a view of one. ``node`` is the operation that made it, if it needs a gradient."""

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
        """Number of elements."""
        return product(self.shape)

    @property
    def needs_gradient(self) -> bool:
        """True if backward reaches it."""
        return self.node is not None


class Node:
    """An operation that has run: what it saved, and where the gradients of its inputs go (autograd's grad_fn).

    ``passes``: the gradient of each input is the output's own (a sum, a view) rather than a new tensor.
    ``scratch``: bytes of temporary buffers of its backward. ``ready``: gradients of the inputs that take no new memory,
    as they were computed in forward or overwrite a saved tensor. ``again``: reruns a checkpointed function.
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
        """Store the sum of the gradients that have reached an output so far."""
        before, self.pending[output] = self.pending[output], gradient
        gradient.waiting += 1
        if before is not None:
            _not_awaited(before)

    def taken(self) -> list[Storage | None]:
        """Take the gradients of its outputs out of the node, so that it no longer keeps them live."""
        gradients, self.pending = self.pending, [None] * len(self.pending)
        for gradient in gradients:
            if gradient is not None:
                _not_awaited(gradient)
        return gradients

    def ended(self) -> None:
        """Free what it saved (release_variables)."""
        for storage in self.saved:
            storage.release()
        self.saved = []
        self.again = None  # it refers to this node (a cycle), and to the inputs


def _not_awaited(gradient: Storage) -> None:
    """Note that a node no longer waits for this gradient."""
    gradient.waiting -= 1
    if gradient.is_gradient and not gradient.waiting:
        gradient.tracker.left(gradient)


class Callback(Node):
    """A callback in the order of nodes, called when backward gets to it."""

    __slots__ = ("crossed",)

    def __init__(self, crossed: Callable[[], None]) -> None:
        super().__init__("crossing", (), (), False, 0, 0)
        self.crossed = crossed


class LeafNode(Node):
    """A leaf tensor of the graph: a parameter, or an input that needs a gradient (which has no ``shape``).

    Its gradient is complete when each of its ``uses`` has added to it; it stays, unless the parameter is updated then.
    """

    __slots__ = ("gradient", "shape", "uses")

    def __init__(self, name: str, shape: tuple[Num, ...] | None = None) -> None:
        super().__init__(name, (), (), False, 0, 1)
        self.gradient: Storage | None = None
        self.shape = shape
        self.uses = 0


class Kept(NamedTuple):
    """A storage saved for backward: the module that it belongs to, and the first that saves it, for which operation.

    It may be offloaded to the host's memory (``on_host``).
    """

    storage: Storage
    module: tuple[Place, ...]
    operation: str
    keeper: str
    on_host: bool = False

    @property
    def copies(self) -> Num:
        """Number of such storages: one for each equal module that its module represents."""
        return product(place.copies * place.passes for place in self.module)

    @property
    def path(self) -> str:
        """Dotted path of its module."""
        return ".".join(place.name for place in self.module)
