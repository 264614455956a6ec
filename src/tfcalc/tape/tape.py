"""Operations one after another, and the backward pass over them: autograd, with sizes in the place of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from tfcalc.core.cost import Held
from tfcalc.core.number import Num
from tfcalc.number_formats import BF16, FP32
from tfcalc.tape.memory_tracker import Found, MemoryTracker, Place, Storage
from tfcalc.tape.standing import Standing
from tfcalc.tape.value import Crossing, Kept, Leaf, Node, Value

if TYPE_CHECKING:
    from tfcalc.tape.sharded import Sharded, Units

STEPPED_IN = {32: FP32.torch, 16: BF16.torch, 8: "uint8"}
"""Formats of what an optimizer computes, by the bits of a number."""

Stepped = Callable[[Leaf], tuple[Held, ...]]
"""What the step of a parameter needs for a moment, where backward takes it."""


class _Inside:
    """One more module runs (a class, as a generator takes three times as long, and this is asked of every module)."""

    __slots__ = ("modules", "place")

    def __init__(self, modules: list[Place], place: Place) -> None:
        self.modules, self.place = modules, place

    def __enter__(self) -> None:
        self.modules.append(self.place)

    def __exit__(self, *_: object) -> None:
        self.modules.pop()


class Tape:
    """Runs operations one after another, and backward from the last to the first.

    Where gradients do not stay (``gradients_stay``), each is added to a buffer that is counted elsewhere. Where two
    meet, the second is added to the first (``sums_in_place``), if nothing else waits for that one; FakeTensors are not.
    Where a parameter is ``stepped`` as soon as its gradient is complete, this is freed then. Where it ``offloads``,
    what layers that run again have read is brought back from the host's memory for it.

    Source: torch's input_buffer.cpp (``can_accumulate_inplace``); ``Tensor.register_post_accumulate_grad_hook``.
    """

    def __init__(self, tracker: MemoryTracker) -> None:
        self.tracker = tracker
        self.nodes: list[Node] = []
        self.module: list[Place] = []
        self.gradients = True
        self.first_run = True
        self.repeats = False
        self.gradients_stay = True
        self.sums_in_place = True
        self.stepped: Stepped | None = None
        self.complete: list[Leaf] = []
        self.offloads = False
        self.kept: dict[int, Kept] = {}
        self.lists = True
        """Whether what is kept is listed with its modules, which takes longer than to add up its bytes."""
        self.standing = Standing(self)
        self.sharded: Sharded | None = None
        """Where weights are gathered from other devices as they are needed."""
        self.turns: Num = 1
        self.returned: list[Found] = []
        """What the model gives to its caller beside the loss."""

    @contextmanager
    def loop(self, turns: Num) -> Iterator[None]:
        """What runs now is one turn of a loop for so many."""
        before, self.turns = self.turns, turns
        try:
            yield
        finally:
            self.turns = before

    def inside(self, module: str, copies: Num = 1, passes: Num = 1) -> AbstractContextManager[None]:
        """What runs now belongs to this module, which stands for so many equal ones, each of which runs so often."""
        return _Inside(self.module, Place(module, copies, passes))

    def gathers(self, units: Units | None) -> None:
        """What runs from now on is gathered from other devices in these units."""
        if units is not None:
            from tfcalc.tape.sharded import Sharded  # of those that ask for it

            self.sharded = Sharded(self, units)
            self.sharded.begins()

    def unit(self) -> AbstractContextManager[None]:
        """What runs now may be gathered from other devices."""
        return nullcontext() if self.sharded is None else self.sharded.runs(self.path)

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """What runs now leaves no nodes (torch.no_grad)."""
        with self._no_gradients(repeats=False):
            yield

    @contextmanager
    def to_be_repeated(self) -> Iterator[None]:
        """What runs now leaves no nodes, and runs again in backward."""
        with self._no_gradients(repeats=True):
            yield

    @contextmanager
    def _no_gradients(self, *, repeats: bool) -> Iterator[None]:
        before = self.gradients, self.repeats
        self.gradients, self.repeats = False, repeats
        try:
            yield
        finally:
            self.gradients, self.repeats = before

    @property
    def path(self) -> str:
        """The module that runs, dotted."""
        return ".".join(place.name for place in self.module)

    def new(self, shape: tuple[Num, ...], dtype: str, label: str = "") -> Storage:
        """Memory for numbers of this shape."""
        return Storage(self.tracker, shape, dtype, label, times=self.turns)

    def given(self, shape: tuple[Num, ...], dtype: str, label: str = "") -> Storage:
        """Memory that is there before anything runs, and is counted elsewhere."""
        return Storage(self.tracker, shape, dtype, label, counts=False)

    def node(
        self,
        name: str,
        inputs: Sequence[Value | None],
        saves: Sequence[Value],
        passes: bool = False,
        scratch: Num = 0,
        outputs: int = 1,
    ) -> Node:
        """A node of the graph."""
        made = Node(name, inputs, saves, passes, scratch, outputs)
        if self.first_run:
            self.uses(inputs)
            for storage in made.saved if self.lists else ():
                if storage.counts and id(storage) not in self.kept:
                    home = storage.home or tuple(self.module)
                    self.kept[id(storage)] = Kept(storage, home, name, self.path)
        self.nodes.append(made)
        return made

    def on_host(self, value: Value) -> Storage:
        """The copy of a tensor that backward needs in the host's memory, where no device's bytes are counted."""
        copy = Storage(self.tracker, value.shape, value.dtype, value.storage.label, counts=False)
        if self.first_run and self.lists:
            self.kept[id(copy)] = Kept(copy, tuple(self.module), "checkpoint", self.path, on_host=True)
        return copy

    def uses(self, inputs: Sequence[Value | None]) -> None:
        """Backward will add to the gradients of the parameters among these."""
        for value in inputs:
            if value is not None and isinstance(value.node, Leaf):
                value.node.uses += 1

    def backward(self, loss: Value) -> None:
        """Run the nodes from the last to the first; the gradient of ``loss`` is 1."""
        assert loss.node is not None
        first = self.new(loss.shape, loss.dtype, "gradient of the loss")  # held until the end, as PyTorch does
        self.seed(loss.node, loss.output, first)
        self.first_run = False
        self.kept.clear()
        if self.sharded is not None:
            self.sharded.turns()
        nodes, self.nodes = self.nodes, []
        while nodes:
            node = nodes.pop()
            if isinstance(node, Crossing):
                node.crossed()
                continue
            self.run_backward(node)
        if first.is_gradient:
            self.tracker.apart = False
        if self.sharded is not None:
            self.sharded.ends()

    def run_backward(self, node: Node) -> None:
        """One node: the gradients of its inputs, from that of its outputs; what it kept is not needed any more."""
        if not any(node.pending):
            for entry in node.inputs:
                if entry is not None and isinstance(entry[0], Leaf):
                    self._used(entry[0])
            self._step()
            node.ended()  # it has kept something, too
            return
        if node.again is not None:
            self.repeated(node)
            node.ended()
            return
        given = node.pending[0] if len(node.pending) == 1 else None
        made: list[Storage | None] = []
        for entry in node.inputs:
            if entry is None or entry[0] is None:
                made.append(None)
            elif node.ready:
                made.append(node.ready[len(made)])
            elif node.passes and given is not None and given.dtype == entry[3]:
                made.append(given)
            else:
                made.append(self.new(entry[2], entry[3], f"gradient of {node.name}"))
        if node.scratch:
            self.tracker.needed(node.scratch)
        node.ended()
        node.ready = ()
        node.taken()
        given = None
        for place, entry in enumerate(node.inputs):
            gradient, made[place] = made[place], None
            if entry is not None and entry[0] is not None and gradient is not None:
                self.seed(entry[0], entry[1], gradient)
        gradient = None
        self._step()

    def seed(self, node: Node, output: int, gradient: Storage) -> None:
        """Add a gradient to what a node has got so far."""
        if isinstance(node, Leaf):
            if self.sharded is not None:
                self.sharded.takes(node, gradient)
            elif self.gradients_stay:
                self._collect(node, gradient)
            return
        before = node.pending[output]
        if gradient.is_gradient:
            self.tracker.apart = False
        node.awaits(output, gradient if before is None else self.sum_of(before, gradient))

    def sum_of(self, before: Storage, more: Storage) -> Storage:
        """Of two gradients: in the first one's memory, or in new memory beside both."""
        if self.sums_in_place and before is not more and before.waiting <= 1:
            return before
        return self.new(before.shape, before.dtype, "sum of gradients")

    def _collect(self, leaf: Leaf, gradient: Storage) -> None:
        """Add to a parameter's gradient."""
        before = leaf.gradient
        if before is not None:  # used twice, as a tied matrix is
            gradient = self.sum_of(before, gradient)
        if gradient is not before:
            if gradient.is_gradient:
                self.tracker.apart = False
            if before is not None:
                self.tracker.replaced(before)
            leaf.gradient = gradient
            self.tracker.gradient(gradient)
        self._used(leaf)

    def _used(self, leaf: Leaf) -> None:
        """One use less to come: after the last the gradient is complete."""
        leaf.uses -= 1
        if self.stepped is not None and leaf.shape is not None and leaf.gradient is not None and leaf.uses <= 0:
            self.complete.append(leaf)

    def _step(self) -> None:
        """The parameters whose gradients are complete are stepped, and these freed; of an operation the last first.

        Source: the engine runs AccumulateGrad, behind which such hooks are, when all its dependencies have run, and
        before all else; a bias is nearer to its product's node than the weight, which is transposed (AddmmBackward0).
        """
        while self.complete and self.stepped is not None:
            leaf = self.complete.pop()
            needed = [self.new(held.factors, STEPPED_IN[held.bits], held.name) for held in self.stepped(leaf)]
            del needed
            if leaf.gradient is not None:
                self.tracker.replaced(leaf.gradient)
                leaf.gradient = None

    def repeated(self, node: Node) -> None:
        """A checkpoint: run forward again, now with nodes, and backward through these.

        The gradient of what nothing has read is made of zeros.
        """
        assert node.again is not None
        outer, self.nodes = self.nodes, []
        results, pending = node.again(), node.taken()
        inner, self.nodes = self.nodes, outer
        for place, result in enumerate(results):
            if result.node is not None:  # something in it is trained
                gradient = pending[place] or self.new(result.shape, result.dtype, "zeros")
                self.seed(result.node, result.output, gradient)
                del gradient
            pending[place] = None
        if all(result.node is None for result in results):
            return
        del results, pending, result
        node.again = None
        while inner:
            self.run_backward(inner.pop())

    def __del__(self) -> None:
        while self.nodes:
            self.nodes.pop()
