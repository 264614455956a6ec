"""The tape: operations in order, and the backward pass over them, as in autograd but without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from tfcalc.core.component import Held
from tfcalc.core.number import Num
from tfcalc.number_formats import BF16, FP32
from tfcalc.tape.memory_tracker import (
    Callback,
    Found,
    GraphNode,
    Kept,
    LeafNode,
    MemoryTracker,
    ModulePlace,
    Storage,
    Value,
)

STEPPED_IN = {32: FP32.torch, 16: BF16.torch, 8: "uint8"}
"""Formats of an optimizer's temporary tensors, by bits per number."""

Stepped = Callable[[LeafNode], tuple[Held, ...]]
"""Temporary tensors of one parameter's optimizer step, if it is taken during backward."""


class ShardedWeights(Protocol):
    """Weights that are sharded over GPUs, and gathered as they are needed (:mod:`tfcalc.tape.sharded`)."""

    def runs(self, path: str) -> AbstractContextManager[None]:
        """Gather the weights of the module at this path while the block runs, if it is a unit."""
        ...

    def turns(self) -> None:
        """Begin the backward pass."""
        ...

    def takes(self, leaf: LeafNode, gradient: Storage) -> None:
        """Take the gradient of a weight."""
        ...

    def ends(self) -> None:
        """End the backward pass."""
        ...


class _Inside:
    """Enter a module and leave it again.

    A class, as ``@contextmanager`` takes three times as long, and every module of every run enters one.
    """

    __slots__ = ("modules", "place")

    def __init__(self, modules: list[ModulePlace], place: ModulePlace) -> None:
        self.modules, self.place = modules, place

    def __enter__(self) -> None:
        self.modules.append(self.place)

    def __exit__(self, *_: object) -> None:
        self.modules.pop()


TRANSPOSED = {"linear": 1}
"""Operations that compute the gradient of an input, by its place, and hand on a transposed view of it.

A tied matrix is in two products, or in one and a table: the second gradient is added to the first in new memory
(profiled on a CPU; Qwen3-4B and StarCoder2-3B on an H100, tests/oracle/memory/h100-unseen.jsonl).
"""


class Tape:
    """Autograd without data: operations in order, and their backward pass from the last to the first.

    Attributes:
        gradients_stay: parameters' gradients stay on the device; otherwise each is added to a buffer counted elsewhere,
            when all uses of the parameter have given theirs (a tied matrix's two are summed up first).
        sums_in_place: a second gradient of a tensor is added to the first in place, if no other node waits for that
            one, and it is no view (not so with FakeTensors).
        stepped: a parameter is updated as soon as its gradient is complete, and the gradient is freed then.
        offloads: inputs of checkpointed layers are saved in the host's memory, and copied back when the layer reruns.

    Source: torch's input_buffer.cpp (``can_accumulate_inplace``); engine.cpp (``Engine::evaluate_function``: a node,
    such as AccumulateGrad, waits in ``not_ready`` for all its inputs); ``Tensor.register_post_accumulate_grad_hook``.
    """

    def __init__(self, tracker: MemoryTracker) -> None:
        self.tracker = tracker
        self.nodes: list[GraphNode] = []
        self.module: list[ModulePlace] = []
        self.gradients = True
        self.first_run = True
        self.repeats = False
        self.gradients_stay = True
        self.sums_in_place = True
        self.stepped: Stepped | None = None
        self.complete: list[LeafNode] = []
        self.offloads = False
        self.kept: dict[int, Kept] = {}
        self.lists = True
        """True if saved tensors are listed with their modules, which takes longer than adding up their bytes."""
        self.sharded: ShardedWeights | None = None
        """FSDP's gathering of weights from other GPUs; None without it."""
        self.turns: Num = 1
        self.returned: list[Found] = []
        """Outputs that the model returns to its caller beside the loss."""

    @contextmanager
    def loop(self, turns: Num) -> Iterator[None]:
        """Run the block once for ``turns`` iterations of a loop."""
        before, self.turns = self.turns, turns
        try:
            yield
        finally:
            self.turns = before

    def inside(self, module: str, copies: Num = 1, passes: Num = 1) -> AbstractContextManager[None]:
        """Run the block inside a module, which represents ``copies`` equal ones that each run ``passes`` times."""
        return _Inside(self.module, ModulePlace(module, copies, passes))

    def unit(self) -> AbstractContextManager[None]:
        """Run the block with its weights gathered, if the module at this path is a unit."""
        return nullcontext() if self.sharded is None else self.sharded.runs(self.path)

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """Run the block without recording nodes (torch.no_grad)."""
        with self._no_gradients(repeats=False):
            yield

    @contextmanager
    def to_be_repeated(self) -> Iterator[None]:
        """Run the block without recording nodes; backward will rerun it."""
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
        """Dotted path of the running module."""
        return ".".join(place.name for place in self.module)

    def new(self, shape: tuple[Num, ...], dtype: str, label: str = "") -> Storage:
        """Allocate memory for a tensor of this shape."""
        return Storage(self.tracker, shape, dtype, label, times=self.turns)

    def given(self, shape: tuple[Num, ...], dtype: str, label: str = "") -> Storage:
        """Return memory that exists before the run and is counted elsewhere (weights, inputs)."""
        return Storage(self.tracker, shape, dtype, label, counts=False)

    def node(
        self,
        name: str,
        inputs: Sequence[Value | None],
        saves: Sequence[Value],
        passes: bool = False,
        scratch: Num = 0,
        outputs: int = 1,
    ) -> GraphNode:
        """Append a node to the graph, with the tensors that it saves."""
        node = GraphNode(name, inputs, saves, passes, scratch, outputs)
        if self.first_run:
            self.uses(inputs)
            for storage in node.saved if self.lists else ():
                if storage.counts and id(storage) not in self.kept:
                    home = storage.home or tuple(self.module)
                    self.kept[id(storage)] = Kept(storage, home, name, self.path)
        self.nodes.append(node)
        return node

    def on_host(self, value: Value) -> Storage:
        """Return a copy of a saved tensor in the host's memory, which takes no bytes on the GPU."""
        copy = Storage(self.tracker, value.shape, value.dtype, value.storage.label, counts=False)
        if self.first_run and self.lists:
            self.kept[id(copy)] = Kept(copy, tuple(self.module), "checkpoint", self.path, on_host=True)
        return copy

    def uses(self, inputs: Sequence[Value | None]) -> None:
        """Note one more use of each parameter among these inputs, whose gradient backward will add to."""
        for value in inputs:
            if value is not None and isinstance(value.node, LeafNode):
                value.node.uses += 1

    def backward(self, loss: Value) -> None:
        """Run the nodes from the last to the first; the gradient of ``loss`` is 1."""
        assert loss.node is not None
        first = self.new(loss.shape, loss.dtype, "gradient of the loss")  # PyTorch, too, frees it only at the end
        self.seed(loss.node, loss.output, first)
        self.first_run = False
        self.kept.clear()
        if self.sharded is not None:
            self.sharded.turns()
        nodes, self.nodes = self.nodes, []
        while nodes:
            node = nodes.pop()
            if isinstance(node, Callback):
                node.crossed()
                continue
            self.run_backward(node)
        if first.is_gradient:
            self.tracker.apart = False
        if self.sharded is not None:
            self.sharded.ends()

    def run_backward(self, node: GraphNode) -> None:
        """Run one node: make the gradients of its inputs from those of its outputs, and free what it saved.

        References are liveness: a gradient is freed, as in PyTorch, when the last variable or list entry with it goes.
        So ``gradient`` and ``gradients[place]`` are reset at the very point where the autograd engine drops its own.
        """
        if not any(node.pending):
            for entry in node.inputs:
                if entry is not None and isinstance(entry[0], LeafNode):
                    self._used(entry[0])
            self._step()
            node.ended()  # no gradient reached it, but its saved tensors were live until now
            return
        if node.again is not None:
            self.repeated(node)
            node.ended()
            return
        incoming = node.pending[0] if len(node.pending) == 1 else None
        gradients: list[Storage | None] = []
        for entry in node.inputs:
            if entry is None or entry[0] is None:
                gradients.append(None)
            elif node.ready:
                gradients.append(node.ready[len(gradients)])
            elif node.passes and incoming is not None and incoming.dtype == entry[3]:
                gradients.append(incoming)
            else:
                made = self.new(entry[2], entry[3], f"gradient of {node.name}")
                made.is_view = len(gradients) == TRANSPOSED.get(node.name)
                gradients.append(made)
                del made  # the list alone holds it: see above
        if node.scratch:
            self.tracker.needed(node.scratch)
        node.ended()
        node.ready = ()
        node.taken()
        incoming = None
        for place, entry in enumerate(node.inputs):
            gradient, gradients[place] = gradients[place], None
            if entry is not None and entry[0] is not None and gradient is not None:
                self.seed(entry[0], entry[1], gradient)
        gradient = None
        self._step()

    def seed(self, node: GraphNode, output: int, gradient: Storage) -> None:
        """Add a gradient to those that have reached a node's output so far."""
        if isinstance(node, LeafNode):
            if self.sharded is not None:
                self.sharded.takes(node, gradient)
            elif self.gradients_stay:
                self._collect(node, gradient)
            else:
                self._hold(node, gradient)
            return
        before = node.pending[output]
        if gradient.is_gradient:
            self.tracker.apart = False
        node.awaits(output, gradient if before is None else self.sum_of(before, gradient))

    def sum_of(self, before: Storage, more: Storage) -> Storage:
        """Return the sum of two gradients: in the first one's memory, or in new memory beside both."""
        alone = before is not more and before.waiting <= 1 and not before.is_view
        if self.sums_in_place and alone:
            return before
        return self.new(before.shape, before.dtype, "sum of gradients")

    def _collect(self, leaf: LeafNode, gradient: Storage) -> None:
        """Accumulate a parameter's gradient (AccumulateGrad)."""
        before = leaf.gradient
        if before is not None:  # used twice, as a tied matrix is
            gradient = self.sum_of(before, gradient)
            self.tracker.apart = False  # added elsewhere, the sum would wait for its last term beside that
        if gradient is not before:
            if gradient.is_gradient:
                self.tracker.apart = False
            if before is not None:
                self.tracker.replaced(before)
            leaf.gradient = gradient
            self.tracker.gradient(gradient)
        self._used(leaf)

    def _hold(self, leaf: LeafNode, gradient: Storage) -> None:
        """Hold a gradient that is added elsewhere until the parameter's other uses have given theirs."""
        leaf.gradient = gradient if leaf.gradient is None else self.sum_of(leaf.gradient, gradient)
        self._used(leaf)

    def _used(self, leaf: LeafNode) -> None:
        """Count down a parameter's uses: after the last its gradient is complete."""
        leaf.uses -= 1
        if not self.gradients_stay and leaf.uses <= 0:
            leaf.gradient = None
        if self.stepped is not None and leaf.shape is not None and leaf.gradient is not None and leaf.uses <= 0:
            self.complete.append(leaf)

    def _step(self) -> None:
        """Update the parameters whose gradients are complete, and free these; of one operation the last input first.

        Source: the engine runs AccumulateGrad, which calls such hooks, as soon as all its dependencies have run; a bias
        is nearer to its product's node than the weight, which is transposed (AddmmBackward0).
        """
        while self.complete and self.stepped is not None:
            leaf = self.complete.pop()
            needed = [self.new(held.factors, STEPPED_IN[held.bits], held.name) for held in self.stepped(leaf)]
            del needed  # frees the optimizer's temporary tensors before the gradient
            if leaf.gradient is not None:
                self.tracker.replaced(leaf.gradient)
                leaf.gradient = None

    def repeated(self, node: GraphNode) -> None:
        """Run a checkpointed function forward again, now with nodes, and backward through these.

        An output that nothing read gets a gradient of zeros.
        """
        assert node.again is not None
        outer, self.nodes = self.nodes, []
        results, pending = node.again(), node.taken()
        inner, self.nodes = self.nodes, outer
        for place, result in enumerate(results):
            if result.node is not None:  # None if nothing in it is trained
                gradient = pending[place] or self.new(result.shape, result.dtype, "zeros")
                self.seed(result.node, result.output, gradient)
                del gradient  # the node has it now; this reference would outlive the node's
            pending[place] = None
        if all(result.node is None for result in results):
            return
        # references are liveness: without these the outputs would stay live during the layer's whole backward pass
        del results, pending, result
        node.again = None
        while inner:
            self.run_backward(inner.pop())

    def __del__(self) -> None:
        # one by one, from the end: freeing a chain of nodes at once recurses as deep as the graph is long
        while self.nodes:
            self.nodes.pop()
