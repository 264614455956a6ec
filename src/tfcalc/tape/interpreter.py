"""The interpreter: a trace that runs kernels as PyTorch does, for saved tensors and the memory that is live.

Of a row of equal layers only those at its ends run. The live bytes at one point of a layer change by the same number
from each layer to the next: what each layer below has saved, or what each above has left in gradients. A linear
function has its maximum at an end, so the peak is in one of the first or last layers; what a layer leaves behind counts
as often as there are layers that it represents. The same holds for a period of several unlike layers.

Under selective checkpointing by operation some results of a layer are saved instead of being recomputed.

Source: torchtitan's ``_save_list`` and its policy "all but every second mm" (activation_checkpoint.py;
parallelize_llama.py in 2024); torch.utils.checkpoint.create_selective_checkpoint_contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import cast
from weakref import ref

from tfcalc.core.component import Weight
from tfcalc.core.number import Num, ceil_div, total
from tfcalc.core.traced import EFFORT, Traced, int_of, value_of
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import (
    Callback,
    Found,
    GraphNode,
    LeafNode,
    MemoryTracker,
    ModulePlace,
    Storage,
    Turn,
    TurnListener,
)
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Call, Group, Part, Shape, Strides, Tensor, Trace, dense, preserved, stacked


class Numerics(NamedTuple):
    """Number formats and the device's peculiarities.

    Attributes:
        weights: format of the weights.
        autocast: format that autocast casts matrix products to; None without autocast.
        statistics: format of a LayerNorm's mean and deviation; None: fp32.
        aligned_masks: rows of masks are padded for the memory-efficient kernel, as on CUDA.
        traced: the values of a mask are unknown (FakeTensorMode, torch.compile), so one of ones is not dropped.
        packed: frozen matrices are quantized, and dequantized for each product.
        adapters: format of adapters' weights, if it is not that of the weights.
        drops_adapters: adapters apply dropout to their input.
        in_int8: products with quantized matrices are those of integers, and save their input (bitsandbytes' LLM.int8).
        keeps_casts: they save it in the format of the product, as bitsandbytes until 0.43.1 did in 4 bits.
        packs_head: the output head is quantized, too, and matrices come from fp16, by way of which they are
            dequantized (Lightning Fabric's BitsandbytesPrecision).
        holds_graph: the training loop has the graph of the step before until the loss of this one is computed.
        cuda: peculiarities of CUDA's kernels count, such as those of softmax.
    """

    weights: str = "float32"
    autocast: str | None = None
    statistics: str | None = None
    aligned_masks: bool = True
    traced: bool = False
    packed: bool = False
    adapters: str = ""
    drops_adapters: bool = False
    in_int8: bool = False
    keeps_casts: bool = False
    packs_head: bool = False
    holds_graph: bool = False
    cuda: bool = False

    @property
    def compute(self) -> str:
        """Format of matrix products."""
        return self.autocast or self.weights


def padded(rows: Num, to: int = 32) -> Num:
    """Return the number of rows rounded up to a multiple of ``to``."""
    rounded: Num = ceil_div(rows, to) * to
    return rounded


class Kernel(NamedTuple):
    """A launched kernel: an operation, or one of several that it consists of.

    Attributes:
        name: PyTorch dispatcher's name, such as ``mm``.
        module: module that runs it, such as ``model.layers.0.mlp.up_proj``.
        reads: bytes of its operands; what a view repeats counts once.
        writes: bytes of its result.
    """

    name: str
    module: str
    reads: int
    writes: int


def launched(call: Call, result: Tensor, module: str) -> list[Kernel]:
    """Return the kernels of an operation; each but the last of several writes as many bytes as the result has."""
    reads = total(map(_read, call.inputs)) if call.reads is None else call.reads
    writes = result.elements * WIDTHS[result.dtype]
    names = call.ran
    each_reads = [reads, *[writes] * (len(names) - 1)]
    return [
        Kernel(name, module, value_of(read), value_of(writes)) for name, read in zip(names, each_reads, strict=False)
    ]


def _read(x: Tensor | None) -> Num:
    if x is None:
        return 0
    stored, elements = x.storage.elements, x.elements
    if isinstance(elements, int) and isinstance(stored, int):
        elements = min(elements, stored)  # an expanded view repeats its storage, which is read once
    return elements * WIDTHS[x.dtype]


WHOLE = ("fused_attention", "reduce_scatter")
PRODUCTS = ("mm",)
"""Kernels of a linear map without a bias; one with a bias runs ``addmm``, and is recomputed."""


class SavedResult(NamedTuple):
    """The result of an operation, and other tensors that its kernel made (``beside``)."""

    made: Tensor
    beside: tuple[Tensor, ...]


class Selected:
    """Results saved in forward, and reused when the layer reruns.

    These are every other matrix product from the first, fused attention, and reduce-scattered sums.
    """

    def __init__(self) -> None:
        self.results: list[SavedResult] = []
        self.products = 0
        self.chosen = False
        self.node: GraphNode | None = None
        """The checkpoint that saves them, once the layer reruns."""

    def of(self, call: Call) -> Storage | None:
        """Return the saved result of an operation that is about to rerun; None if it is computed."""
        self.chosen = self._chooses(call)
        return self._read(self.node) if self.chosen and self.node is not None else None

    def ran(self, call: Call, made: Tensor) -> None:
        """Save the result of a chosen operation in the forward pass."""
        if self.chosen and self.node is None:
            made.trace.belongs(made)
            self.results.append(SavedResult(made, tuple(saved for saved in call.saves if saved not in call.inputs)))

    @property
    def kept(self) -> list[Tensor]:
        """Saved tensors of all results."""
        return [tensor for result in self.results for tensor in (result.made, *result.beside)]

    def begins_again(self, node: GraphNode) -> None:
        """Begin the rerun of the layer in backward."""
        self.node, self.products = node, 0

    def _chooses(self, call: Call) -> bool:
        if call.ran == PRODUCTS:
            self.products += 1
            return self.products % 2 == 1
        return call.name in WHOLE

    def _read(self, node: GraphNode) -> Storage:
        """Return the next saved result, and hand its ownership from the checkpoint to the operations that read it.

        The checkpoint itself keeps the last one: recomputation stops before it, as nothing behind it is saved.
        """
        result, *self.results = self.results
        if self.results:
            for tensor in (result.made, *result.beside):
                node.saved.remove(tensor.storage)
                tensor.storage.release()
        return result.made.storage


class RowCollapse:
    """Runs the layers of a stack, of which one, or one period of several, may represent others."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.waiting: tuple[list[ref[Storage]], int] | None = None
        self.until = 0
        """Number of layers that still run before the waiting storages are multiplied."""
        self.row = 0
        """Number of the row that runs, or ran last."""

    @contextmanager
    def runs(self, layers: int, at: int = 0, together: int = 1, turn: int | None = None) -> Iterator[None]:
        """Run a layer that represents ``layers``, ``at`` this place of the ``together`` layers of its period.

        Their storages that are still live when as many layers after them have ended are saved for backward, and count
        ``layers`` times. ``turn`` is the number of the period in its row, which is reported to a tracker that asks.
        """
        tracker = self.tape.tracker
        if turn is not None and tracker.turns is not None and at == 0:
            self.row += turn == 0
            self._report(tracker.turns, Turn(self.row, turn, layers), begins=True)
        if layers != 1 and at == 0:
            self._boundary(layers)
            tracker.since = []
        yield
        if layers == 1:
            self._ended()
        elif at == together - 1:
            storages, tracker.since = tracker.since or [], None
            self._boundary(layers)
            self.waiting, self.until = (storages, layers), together
        if turn is not None and tracker.turns is not None and at == together - 1:
            self._report(tracker.turns, Turn(self.row, turn, layers), begins=False)

    def _report(self, turns: TurnListener, turn: Turn, *, begins: bool) -> None:
        """Report the begin or end of a turn in forward, and later in backward, where begin and end are swapped."""
        turns.comes_to(turn, begins=begins)
        if self.tape.gradients:
            self.tape.nodes.append(Callback(lambda: turns.comes_to(turn._replace(backward=True), begins=not begins)))

    def _ended(self) -> None:
        if self.waiting is not None:
            self.until -= 1
            if not self.until:
                waiting, self.waiting = self.waiting, None
                multiply(self.tape.tracker, *waiting)

    def _boundary(self, layers: int) -> None:
        if self.tape.gradients:
            self.tape.nodes.append(Callback(lambda: crossed(self.tape.tracker, layers)))


def crossed(tracker: MemoryTracker, layers: int) -> None:
    """Note that backward gets to the end (first call) or begin (second call) of a layer that represents others.

    Gradients of parameters that it makes in between count ``layers`` times.
    """
    if tracker.since is None:
        tracker.since = []
        return
    storages, tracker.since = tracker.since, None
    multiply(tracker, storages, layers, gradients=True)


def multiply(tracker: MemoryTracker, storages: list[ref[Storage]], layers: int, *, gradients: bool = False) -> None:
    """Count the storages that are still live ``layers`` times, or only the ``gradients`` among them."""
    live = (storage() for storage in storages)
    for storage in {id(storage): storage for storage in live if storage is not None}.values():  # each of them once
        if storage.is_gradient or not gradients:
            tracker.multiplied(storage, layers)


class Interpreter(Trace):
    """Runs a model's kernels on a tape.

    ``trained`` tells of a module's path whether its parameters are trained; weights that a model freezes never are.
    """

    emits_kernels = True

    def __init__(
        self,
        tape: Tape,
        numerics: Numerics,
        trained: Callable[[str], bool] = lambda _: True,
        *,
        every_layer: bool = True,
    ) -> None:
        self.every_layer = every_layer
        self.tape = tape
        self.standing = RowCollapse(tape)
        self.numerics = numerics
        self.cuda, self.packed, self.in_int8 = numerics.cuda, numerics.packed, numerics.in_int8
        self.keeps_casts, self.packs_head = numerics.keeps_casts, numerics.packs_head
        self.of_nodes: list[ref[Storage]] = []
        """Storages that nodes have as attributes (``ctx.tensors``): running backward does not free them."""
        self.trained = trained
        self.weights: dict[str, Tensor] = {}
        self.casts: dict[int, Tensor] = {}
        self.held: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.shared: tuple[str, int] | None = None
        """Name of the weights that the running layers share, and the depth of modules at which they do."""
        self.selected: Selected | None = None
        """Results that a checkpoint by operations saves beside its inputs."""
        self.stands_for: list[str] = []
        """Paths of the running layer and of the layers that it represents."""
        self.kernels: list[Kernel] | None = None
        """Launched kernels; None if they are not recorded."""

    @property
    def gradients(self) -> bool:
        """True if gradients are recorded now (torch.is_grad_enabled)."""
        return self.tape.gradients

    # --- modules

    def inside(self, part: Part) -> AbstractContextManager[None]:
        """Run the block as part of this module."""
        return self.tape.inside(part.name)

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """Run the block as these layers of a stack."""
        tape, outer = self.tape, self.stands_for
        stand = self.standing.runs(layers.stands_for, *layers.place, turn=layers.turn)
        if layers.stands_for > 1:
            self.stands_for = [f"{tape.path}.{name}" for name in (layers.name, *layers.others)]
        with tape.inside(layers.name, layers.copies), stand, tape.unit():
            yield
        self.stands_for = outer

    def like_others(self, x: Tensor) -> bool:
        """Return whether the first layer saves what the others do.

        False if its input is saved anyway, or has another format than the residual stream.
        """
        return x.needs_gradient and x.dtype == self.numerics.weights and not x.storage.keepers

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """Run the block without recording a graph (torch.no_grad)."""
        with self.tape.without_gradients():
            yield

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """Return a parameter of the running module, the same one each time; a tied one is the tensor it is tied to."""
        path, shape = weight.tied_to or f"{self._home}.{weight.name}", stacked(weight, copies)
        if path not in self.weights:
            trained = not weight.frozen and self.trained(self.tape.path)
            node = LeafNode(path, shape) if trained else None
            self.weights[path] = self._existing(shape, dtype or self.numerics.weights, path, node)
        # a tied head reads the embedding transposed
        return self.weights[path] if weight.tied_to is None else self.view(self.weights[path], shape, dense(shape))

    @property
    def _home(self) -> str:
        """Path under which the weights of the running module are stored."""
        if self.shared is None:
            return self.tape.path
        name, depth = self.shared
        return ".".join((name, *(place.name for place in self.tape.module[depth:])))

    @contextmanager
    def shares(self, name: str) -> Iterator[None]:
        """Run the block with the weights stored under this name; with ``""``, those of its own module."""
        before, self.shared = self.shared, (name, len(self.tape.module)) if name else None
        try:
            yield
        finally:
            self.shared = before

    def scalar(self, name: str, dtype: str) -> Tensor:
        """Return a trained scalar of the running module, in a format of its own."""
        path = f"{self.tape.path}.{name}"
        if path not in self.weights:
            self.weights[path] = self._existing((1,), dtype, path, LeafNode(path, (1,)))
        return self.weights[path]

    @contextmanager
    def passes(self, times: Num) -> Iterator[None]:
        """Run the block once for ``times`` passes of the running module."""
        place = self.tape.module[-1]
        self.tape.module[-1] = place._replace(passes=times)
        yield
        self.tape.module[-1] = place

    # --- operations

    def turns(self, count: Num) -> AbstractContextManager[None]:
        """Run the block once for ``count`` iterations of a loop."""
        return self.tape.loop(count)

    def call(self, call: Call) -> Tensor:
        """Run an operation: memory for its result, and a node if a gradient reaches it."""
        EFFORT.spend()
        saved_before = None if self.selected is None else self.selected.of(call)
        storage = call.shares or saved_before or self.tape.new(call.shape, call.dtype, call.name)
        storage.kept_as = call.kept_as
        result = Tensor(self, storage, call.shape, call.dtype, call.strides or dense(call.shape))
        if self.tape.gradients and self._reached(call.inputs):
            saves = [*call.saves, *([result] if call.saves_result else [])]
            result.node = self.tape.node(call.name, call.inputs, saves, call.passes, call.scratch)
        elif self.tape.repeats and self.tape.first_run:
            self.tape.uses(call.inputs)
        if self.kernels is not None:
            self.kernels += launched(call, result, self.tape.path)
        if self.selected is not None:
            self.selected.ran(call, result)
        return result

    @staticmethod
    def _reached(inputs: tuple[Tensor | None, ...]) -> bool:
        for x in inputs:  # noqa: SIM110  # any() of a generator takes twice as long, and every operation asks this
            if x is not None and x.node is not None:
                return True
        return False

    def checkpoints(
        self, run: Callable[..., list[Tensor]], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> list[Tensor]:
        """Call ``run``, saving only its inputs; backward reruns it (torch.utils.checkpoint).

        The inputs may be offloaded to the host's memory (transformers'
        ``activation_checkpointing_enable(offload=True)``: torch.autograd.graph.save_on_cpu around it).
        """
        if not self.tape.gradients:
            return run(*given)
        module, selected = list(self.tape.module), Selected() if by_operation else None
        with self.tape.to_be_repeated(), self._selecting(selected):
            results = run(*given)
        saved = selected.kept if selected is not None else []
        offloads = self.tape.offloads
        node = self.tape.node("checkpoint", given, saved if offloads else [*given, *saved], outputs=len(results))
        if offloads:
            given = tuple(self._stored(x, self.tape.on_host(x)) for x in given)
        outputs = [
            Tensor(self, result.storage, result.shape, result.dtype, result.strides, node=node, output=place)
            for place, result in enumerate(results)
        ]

        def again() -> list[Tensor]:
            before, self.tape.module = self.tape.module, module
            if selected is not None:
                selected.begins_again(node)
            with self._selecting(selected):
                computed = run(*map(self._brought_back, given)) if offloads else run(*given)
            self.tape.module = before
            self.held.clear()  # the layer's forward has returned, and its local variables are gone
            self.autocast_ends()
            return computed

        node.again = again
        return outputs

    def _brought_back(self, x: Tensor) -> Tensor:
        """Copy a tensor from the host's memory back to the GPU."""
        return self._stored(x, self.tape.new(x.shape, x.dtype, x.storage.label))

    def _stored(self, x: Tensor, storage: Storage) -> Tensor:
        """Return the tensor in another storage, contiguous."""
        return Tensor(self, storage, x.shape, x.dtype, dense(x.shape), node=x.node, output=x.output)

    @contextmanager
    def _selecting(self, selected: Selected | None) -> Iterator[None]:
        before, self.selected = self.selected, selected
        try:
            yield
        finally:
            self.selected = before

    def alias(self, name: str, weight: Tensor) -> None:
        """Register another name of a weight, for others to be tied to."""
        self.weights.setdefault(name, weight)

    def forget(self, name: str) -> None:
        """Drop the weight of this name, so that another can be registered under it."""
        self.weights.pop(name, None)

    def composite(self, call: Call, code: Callable[[], Tensor]) -> Tensor:
        """Run a library's ``code``; what an activation or a loss saves is listed under its own name."""
        if call.leaf is None or call.leaf.kind not in ("activation", "loss"):
            return code()
        with self.tape.inside(call.leaf.name):
            return code()

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """Return the same memory in another shape."""
        return Tensor(self, x.storage, shape, x.dtype, strides, node=x.node, output=x.output)

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Return a new tensor without a gradient."""
        return Tensor(self, self.tape.new(shape, dtype, label), shape, dtype, dense(shape))

    def given(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Return a tensor that exists before the run, and is counted elsewhere."""
        return self._existing(shape, dtype, label)

    def data(self, shape: Shape, label: str) -> Tensor:
        """Return an input tensor that needs a gradient."""
        return self._existing(shape, self.weights_format, label, LeafNode(label))

    def _existing(self, shape: Shape, dtype: str, label: str, node: GraphNode | None = None) -> Tensor:
        return Tensor(self, self.tape.given(shape, dtype, label), shape, dtype, dense(shape), node=node)

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Return views of parts of the last axis; backward concatenates their gradients."""
        node = None
        if self.tape.gradients and x.needs_gradient:
            node = self.tape.node("split", [x], [], outputs=len(shapes))
        elif self.tape.repeats and self.tape.first_run:
            self.tape.uses([x])
        return [
            Tensor(self, x.storage, shape, x.dtype, strides, node=node, output=place if node else 0)
            for place, shape in enumerate(shapes)
        ]

    # --- autocast

    def lower(self, x: Tensor) -> Tensor:
        """Cast an operand of a matrix product as autocast does."""
        cast = self.numerics.autocast
        return x if cast is None or x.dtype != "float32" else self.to(x, cast)

    def upper(self, x: Tensor) -> Tensor:
        """Cast an operand of an operation that autocast runs in fp32."""
        return x if self.numerics.autocast is None else self.to(x, "float32")

    def to(self, x: Tensor, dtype: str) -> Tensor:
        """Return a copy in another format with the same layout, or ``x`` itself if it has this one."""
        return (
            x
            if x.dtype == dtype
            else self.call(Call("to", (x,), x.shape, dtype, strides=preserved(x), kernels=("_to_copy",)))
        )

    def lower_weight(self, weight: Tensor) -> Tensor:
        """Cast a parameter as autocast does: its copy is cached until autocast ends (if it is trained)."""
        if self.numerics.autocast is None or weight.dtype != "float32":
            return weight
        if not weight.needs_gradient:
            return self.to(weight, self.numerics.autocast)
        key = id(weight.storage)
        if key not in self.casts:
            cast = self.casts[key] = self.to(weight, self.numerics.autocast)
            places = (place._replace(passes=1) for place in self.tape.module)
            shared = self.shared is not None
            cast.storage.home = tuple(place._replace(copies=1) if shared else place for place in places)
        return self.casts[key]

    @property
    def weights_format(self) -> str:
        """Format of the weights."""
        return self.numerics.weights

    @property
    def module(self) -> tuple[ModulePlace, ...]:
        """Running modules, from the outermost."""
        return tuple(self.tape.module)

    def upper_format(self, dtype: str) -> str:
        """Return the format of an operation that autocast runs in fp32."""
        return "float32" if self.numerics.autocast else dtype

    def statistics(self, dtype: str) -> str:
        """Return the format of a LayerNorm's mean and deviation."""
        return "float32" if dtype == "float32" else self.numerics.statistics or "float32"

    @property
    def compute(self) -> str:
        """Format of matrix products."""
        return self.numerics.compute

    def until_layer_ends(self, x: Tensor) -> None:
        """Keep ``x`` live until the layer returns, as a local variable of the library's layer does."""
        self.held.append(x)

    def layer_ends(self) -> None:
        """Drop the local variables of the layer that returns."""
        self.held.clear()

    def belongs(self, x: Tensor) -> None:
        """List ``x`` under the running module, whichever module saves it."""
        x.storage.home = self.module

    def until_loss_ends(self, x: Tensor) -> None:
        """Keep ``x`` live until the loss is computed, as a local variable of the model does."""
        self.outputs.append(x)

    def until_end(self, x: Tensor) -> None:
        """Keep ``x`` live during the whole step."""
        self.weights[f"{self.tape.path}.{x.storage.label}"] = x

    def loss_ends(self) -> None:
        """Drop the local variables of the model."""
        self.outputs.clear()

    def attribute(self, x: Tensor) -> None:
        """Note that a node has ``x`` as an attribute, which lives as long as the graph."""
        if self.numerics.holds_graph and self.tape.gradients and self.tape.tracker.watch:
            self.of_nodes.append(ref(x.storage))

    def step_before(self) -> None:
        """Allocate what the graph of the step before still has, until the loss is computed: as much as this one's.

        A layer that represents others counts as often as they are.
        """
        live = {id(storage): storage for each in self.of_nodes if (storage := each()) is not None}
        sizes = [storage.size * (storage.bytes // int_of(cast(Traced, storage.size))) for storage in live.values()]
        if sizes:
            self.outputs.append(self.new((sum(sizes),), "uint8", "attributes of the last step's graph"))

    def returns(self, name: str, x: Tensor) -> None:
        """Note that the model returns ``x`` to its caller."""
        self.tape.returned.append(Found(name, x.dtype, x.shape))

    def needed(self, size: Num) -> None:
        """Allocate and free a temporary buffer of ``size`` bytes."""
        self.tape.tracker.needed(size)

    @contextmanager
    def no_autocast(self) -> Iterator[None]:
        """Run the block without autocast, as inside an operation whose inputs autocast has cast."""
        before, self.numerics = self.numerics, self.numerics._replace(autocast=None)
        try:
            yield
        finally:
            self.numerics = before

    def autocast_ends(self) -> None:
        """Drop autocast's cached copies of weights."""
        self.casts.clear()
