"""Live bytes, what they are for, and their peak: storages, the trackers that follow their lives, and the graph.

The graph is that of autograd: tensors, the operations that made them, and what these save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from weakref import ref

from tfcalc.core.number import Num, product
from tfcalc.core.traced import Spent, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS

LENT = WEIGHTS, GATHER, REDUCE = "gathered weights", "all-gather buffer", "reduce-scatter buffer"
"""Labels of buffers for tensors gathered from, or sent to, other GPUs."""
PIECE = "reduced gradients"
"""Label of a GPU's shard of the reduced gradients."""


class ModulePlace(NamedTuple):
    """A module inside another: its name, the number of equal modules that it represents, and the passes of each."""

    name: str
    copies: Num = 1
    passes: Num = 1


class Turn(NamedTuple):
    """A period of a row of repeating layers: the row, the period's index, and how many ``times`` it counts."""

    row: int
    number: int
    times: int
    backward: bool = False


class TurnListener(Protocol):
    """Receiver of the begin and end of every turn."""

    def comes_to(self, turn: Turn, *, begins: bool) -> None:
        """Note that forward or backward gets to the begin or the end of a turn."""
        ...


class MemorySnapshot:
    """Live bytes at the peak: in total, and of these saved for backward, gathered, and gradients."""

    __slots__ = ("gathered", "gradients", "saved", "total")

    def __init__(self) -> None:
        self.total = 0
        self.gathered = 0
        self.saved = 0
        self.gradients = 0

    @property
    def temporary(self) -> int:
        """Bytes of the rest: results that no node saves, and gradients of activations."""
        return self.total - self.saved - self.gradients - self.gathered


class MemoryTracker:
    """Counts the bytes of every storage from its allocation until nothing refers to it.

    Python's reference counts tell when that is, as in PyTorch: a local variable of code on the tape extends a tensor's
    life exactly as the same variable does there. So extracting a helper from a ``forward``, or keeping a list longer,
    changes a peak. A tracker that does not ``watch`` counts nothing; then sizes may be symbols.
    """

    __slots__ = (
        *("alone", "apart", "gathered", "gradients", "live", "most", "most_apart", "phase", "phases", "phases_apart"),
        *("saved", "since", "turns", "watch"),
    )

    def __init__(self, *, watch: bool = True) -> None:
        self.watch = watch
        self.live = 0
        self.saved = 0
        self.gradients = 0
        self.gathered = 0
        self.most = MemorySnapshot()
        self.phase = ""
        self.phases: dict[str, MemorySnapshot] = {}
        self.most_apart = MemorySnapshot()
        self.phases_apart: dict[str, MemorySnapshot] = {}
        """Peaks without the gradients of parameters, for setups that add these to buffers counted elsewhere."""
        self.apart = True
        """True while these peaks are known; not if two gradients are added in new memory, for example."""
        self.alone = 0
        """Bytes of parameters' gradients that no node waits for."""
        self.since: list[ref[Storage]] | None = None
        """Storages allocated, or made a gradient, since a row's representative began; None: not asked for."""
        self.turns: TurnListener | None = None

    def begin(self, phase: str) -> None:
        """Begin a phase; store the peak of the one before."""
        apart, before = self.most_apart, self.new_phase()
        if self.phase:
            self.phases[self.phase], self.phases_apart[self.phase] = before, apart
        self.phase = phase

    def new_phase(self) -> MemorySnapshot:
        """Return the peak so far, and start a new one."""
        before, self.most, self.most_apart = self.most, MemorySnapshot(), MemorySnapshot()
        self.look()
        return before

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        if self.watch:
            self.live += storage.bytes
            if self.since is not None:
                self.since.append(ref(storage))
            if self.live > self.most.total or self.live - self.alone > self.most_apart.total:
                self.look()

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        if self.watch:
            self.live -= storage.bytes

    def kept(self, storage: Storage) -> None:
        """Count a storage as saved for backward."""
        if self.watch:
            self.saved += storage.bytes

    def released(self, storage: Storage) -> None:
        """Count a storage as no longer saved for backward."""
        if self.watch:
            self.saved -= storage.bytes

    def gradient(self, storage: Storage) -> None:
        """Count a storage as a parameter's gradient."""
        if self.watch:
            self.gradients += storage.bytes
            storage.is_gradient = True
            if storage.keepers:
                self.apart = False
            if not storage.waiting:
                self.alone += storage.bytes
            if self.since is not None:
                self.since.append(ref(storage))

    def left(self, storage: Storage) -> None:
        """Note that no node waits for a parameter's gradient any more."""
        if self.watch:
            self.alone += storage.bytes

    def replaced(self, storage: Storage) -> None:
        """Note that a storage is no parameter's gradient any more: it was added to another, or its step is done."""
        if self.watch:
            self.gradients -= storage.bytes
            storage.is_gradient = False
            self.apart = False

    def lent(self, size: Num) -> None:
        """Count bytes gathered from, or for, other GPUs; negative when they are freed."""
        if self.watch:
            self.gathered += value_of(size)

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        if self.watch:
            self.live += value_of(size)
            self.look()
            self.live -= value_of(size)

    def multiplied(self, storage: Storage, times: int) -> None:
        """Count a storage ``times`` times, for the layers that its layer represents."""
        more = (times - 1) * storage.bytes
        storage.bytes += more
        self.live += more
        self.saved += more if storage.keepers else 0
        if storage.is_gradient:
            self.gradients += more
            self.alone += more
            self.apart = self.apart and not storage.waiting

    def look(self) -> None:
        """Note what is live if it is more than at any moment before."""
        if self.live > self.most.total:
            self.most.total, self.most.saved, self.most.gradients = self.live, self.saved, self.gradients
            self.most.gathered = self.gathered
        if self.live - self.alone > self.most_apart.total:
            self.most_apart.total, self.most_apart.saved = self.live - self.alone, self.saved
            self.most_apart.gathered = self.gathered


class Found(NamedTuple):
    """A tensor that was live at the peak: the operation that made it, its format, and its shape."""

    label: str
    dtype: str
    shape: tuple[Num, ...]

    @property
    def elements(self) -> Num:
        """Number of elements."""
        return product(self.shape)


KEPT, GRADIENT, PASSING, GONE = "saved", "gradient", "passing", "gone"
"""Purposes of a live storage: saved for backward, a parameter's gradient, or temporary; and freed."""


class PeakRecorder(MemoryTracker):
    """Records what happens to every tensor, and lists those that were live at the peak of each phase."""

    __slots__ = ("_at", "_copies", "_events", "_highest")

    def __init__(self) -> None:
        super().__init__()
        self._events: list[tuple[int, Found | None, str]] = []
        """Events: identity of a storage, its description (None when it is freed), and its purpose."""
        self._copies: dict[int, int] = {}
        self._at = 0
        """Number of events before the peak of the running phase."""
        self._highest: dict[str, int] = {}

    def begin(self, phase: str) -> None:
        """Begin a phase; note where the peak of the one before is."""
        self._highest[self.phase] = self._at
        super().begin(phase)

    def passing(self, phase: str) -> list[Found]:
        """Return the temporary tensors at the first peak of this phase, in order of allocation."""
        return self._live(phase, PASSING)

    def gradients_at(self, phase: str) -> list[Found]:
        """Return the parameters' gradients that were live at that peak."""
        return self._live(phase, GRADIENT)

    def _live(self, phase: str, purpose: str) -> list[Found]:
        live: dict[int, tuple[Found, str]] = {}
        for key, tensor, its_purpose in self._events[: self._highest.get(phase, self._at)]:
            if tensor is not None:
                live[key] = tensor, its_purpose
            else:
                del live[key]
        return [tensor for tensor, its_purpose in live.values() if its_purpose == purpose]

    def made(self, storage: Storage) -> None:
        """Count an allocation."""
        self._note(storage)
        super().made(storage)

    def gone(self, storage: Storage) -> None:
        """Count a free."""
        self._copies.pop(id(storage), None)
        self._events.append((id(storage), None, GONE))
        super().gone(storage)

    def kept(self, storage: Storage) -> None:
        """Count a storage as saved for backward."""
        super().kept(storage)
        self._note(storage)

    def released(self, storage: Storage) -> None:
        """Count a storage as no longer saved for backward."""
        super().released(storage)
        self._note(storage)

    def gradient(self, storage: Storage) -> None:
        """Count a storage as a parameter's gradient."""
        super().gradient(storage)
        self._note(storage)

    def replaced(self, storage: Storage) -> None:
        """Note that a storage is no parameter's gradient any more."""
        super().replaced(storage)
        self._note(storage)

    def multiplied(self, storage: Storage, times: int) -> None:
        """Count a storage ``times`` times."""
        super().multiplied(storage, times)
        self._copies[id(storage)] = times * self._copies.get(id(storage), 1)
        self._note(storage)

    def _note(self, storage: Storage) -> None:
        purpose = KEPT if storage.keepers else GRADIENT if storage.is_gradient else PASSING
        shape = (*storage.shape, self._copies.get(id(storage), 1))
        self._events.append((id(storage), Found(storage.label, storage.dtype, shape), purpose))

    def look(self) -> None:
        """Note what is live, tensor by tensor, if it is more than at any moment before."""
        before = self.most.total
        super().look()
        if self.most.total > before:
            self._at = len(self._events)


class Storage:
    """The memory behind one or more tensors: the elements of its shape, in its format.

    Allocated in a loop that runs once for ``times`` iterations, it counts once as long as it is freed within its
    iteration. If backward recomputes it from another storage, that one is saved in its place (``kept_as``).
    """

    __slots__ = (
        "__weakref__",
        *(
            "bytes",
            "counts",
            "dtype",
            "home",
            "is_gradient",
            "is_view",
            "keepers",
            "kept_as",
            "label",
            "shape",
            "tracker",
            "times",
            "waiting",
        ),
    )

    def __init__(
        self,
        tracker: MemoryTracker,
        shape: tuple[Num, ...],
        dtype: str,
        label: str,
        *,
        counts: bool = True,
        times: Num = 1,
    ) -> None:
        self.tracker = tracker
        self.shape = shape
        self.dtype = dtype
        self.bytes = _bytes(shape, dtype) if tracker.watch else 0
        self.label = label
        self.home: tuple[ModulePlace, ...] = ()  # module that it is listed under, if not the one that saves it
        self.counts = counts  # False for parameters, buffers and inputs, which are counted elsewhere
        self.keepers = 0
        self.is_gradient = False
        self.is_view = False  # a gradient that its node turned around, to which nothing is added in place
        self.kept_as: Storage | None = None
        self.times = times
        self.waiting = 0  # nodes that have not run yet and whose gradient it is
        if counts:
            tracker.made(self)

    @property
    def elements(self) -> Num:
        """Number of elements."""
        return product(self.shape)

    @property
    def size(self) -> Num:
        """Bytes, which may be a closed form."""
        return self.elements * WIDTHS[self.dtype]

    def repeat(self) -> None:
        """Count one for each iteration of its loop, as it outlives its iteration."""
        times, self.times = self.times, 1
        if not isinstance(times, int) or times != 1:
            self.tracker.gone(self)
            self.shape = (*self.shape, times)
            self.bytes *= value_of(times) if self.tracker.watch else 0
            self.tracker.made(self)

    def keep(self) -> None:
        """Save it for the backward of a node."""
        self.keepers += 1
        self.repeat()
        if self.keepers == 1 and self.counts:
            self.tracker.kept(self)

    def release(self) -> None:
        """Release it for one node that saved it."""
        self.keepers -= 1
        if self.keepers == 0 and self.counts:
            self.tracker.released(self)

    def __del__(self) -> None:
        if self.counts:
            try:  # noqa: SIM105  # suppress() takes as long as the rest, and every storage is freed once
                self.tracker.gone(self)
            except Spent:  # nothing catches what a destructor raises; the next operation is refused
                pass


def _bytes(shape: tuple[Num, ...], dtype: str) -> int:
    total = WIDTHS[dtype]
    for size in shape:
        total *= size if type(size) is int else value_of(size)  # most are ints: a call for each would dominate
    return total


class Value:
    """A tensor: a storage, or a view of one. ``node`` is the operation that made it, if it needs a gradient."""

    __slots__ = ("dtype", "node", "output", "shape", "storage")

    def __init__(
        self, storage: Storage, shape: tuple[Num, ...], dtype: str, node: GraphNode | None = None, output: int = 0
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


class GraphNode:
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


class Callback(GraphNode):
    """A callback in the order of nodes, called when backward gets to it."""

    __slots__ = ("crossed",)

    def __init__(self, crossed: Callable[[], None]) -> None:
        super().__init__("crossing", (), (), False, 0, 0)
        self.crossed = crossed


class LeafNode(GraphNode):
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
    module: tuple[ModulePlace, ...]
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
