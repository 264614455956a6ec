"""A trace that runs as PyTorch does: what backward keeps, and what is live when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.effort import EFFORT
from tfcalc.core.number import Num
from tfcalc.tape.call import Call
from tfcalc.tape.kernels import Kernel, launched
from tfcalc.tape.memory_tracker import Found, Place, Storage
from tfcalc.tape.numerics import Numerics
from tfcalc.tape.selected import Selected
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Shape, Strides, Tensor, dense, preserved
from tfcalc.tape.trace import Group, Part, Trace, stacked
from tfcalc.tape.value import Leaf, Node


class Interpreter(Trace):
    """Runs on a tape. ``trained`` says of the path of a parameter whether it is; those that a model freezes never."""

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
        self.numerics = numerics
        self.cuda, self.packed, self.keeps_inputs = numerics.cuda, numerics.packed, numerics.keeps_inputs
        self.trained = trained
        self.weights: dict[str, Tensor] = {}
        self.casts: dict[int, Tensor] = {}
        self.held: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.shared: tuple[str, int] | None = None
        """The name of the weights that run and other layers have, too, and how many modules are around these."""
        self.selected: Selected | None = None
        """What a checkpoint keeps beside what it is given."""
        self.stands_for: list[str] = []
        """The path of the layer that runs, and those of the layers that it stands for."""
        self.kernels: list[Kernel] | None = None
        """Those that have been launched, where somebody asks for them."""

    @property
    def gradients(self) -> bool:
        """Whether backward will come."""
        return self.tape.gradients

    # --- modules

    def inside(self, part: Part) -> AbstractContextManager[None]:
        """What runs now belongs to this module."""
        return self.tape.inside(part.name)

    @contextmanager
    def group(self, layers: Group) -> Iterator[None]:
        """What runs now are these layers of a stack."""
        tape, outer = self.tape, self.stands_for
        stand = tape.standing.runs(layers.stands_for, *layers.place, turn=layers.turn)
        if layers.stands_for > 1:
            self.stands_for = [f"{tape.path}.{name}" for name in (layers.name, *layers.others)]
        with tape.inside(layers.name, layers.copies), stand, tape.unit():
            yield
        self.stands_for = outer

    def like_others(self, x: Tensor) -> bool:
        """Not where what the first layer reads is kept anyway, or has another format than the stream."""
        return x.needs_gradient and x.dtype == self.numerics.weights and not x.storage.keepers

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        """What runs now leaves no graph."""
        with self.tape.without_gradients():
            yield

    def weight(self, weight: Weight, copies: Num = 1, dtype: str = "") -> Tensor:
        """A parameter of the module that runs, the same each time; a tied one is that which it is tied to."""
        path, shape = weight.tied_to or f"{self._home}.{weight.name}", stacked(weight, copies)
        if path not in self.weights:
            trained = not weight.frozen and self.trained(self.tape.path)
            node = Leaf(path, shape) if trained else None
            self.weights[path] = self._there(shape, dtype or self.numerics.weights, path, node)
        # a matrix that is a table elsewhere is read the other way round
        return self.weights[path] if weight.tied_to is None else self.view(self.weights[path], shape, dense(shape))

    @property
    def _home(self) -> str:
        """Where the weights of the module that runs are."""
        if self.shared is None:
            return self.tape.path
        name, depth = self.shared
        return ".".join((name, *(place.name for place in self.tape.module[depth:])))

    @contextmanager
    def shares(self, name: str) -> Iterator[None]:
        """What runs now has the weights that go by this name, wherever it runs; by none, those of its own place."""
        before, self.shared = self.shared, (name, len(self.tape.module)) if name else None
        try:
            yield
        finally:
            self.shared = before

    def scalar(self, name: str, dtype: str) -> Tensor:
        """A trained number of the module that runs, in a format of its own."""
        path = f"{self.tape.path}.{name}"
        if path not in self.weights:
            self.weights[path] = self._there((1,), dtype, path, Leaf(path, (1,)))
        return self.weights[path]

    @contextmanager
    def passes(self, times: Num) -> Iterator[None]:
        """What runs now is one turn of the module that runs, for so many."""
        place = self.tape.module[-1]
        self.tape.module[-1] = place._replace(passes=times)
        yield
        self.tape.module[-1] = place

    # --- operations

    def turns(self, count: Num) -> AbstractContextManager[None]:
        """What runs now is one turn of a loop for so many."""
        return self.tape.loop(count)

    def call(self, call: Call) -> Tensor:
        """Run an operation: memory for its result, and a node if a gradient reaches it."""
        EFFORT.spend()
        kept = None if self.selected is None else self.selected.of(call)
        storage = call.shares or kept or self.tape.new(call.shape, call.dtype, call.name)
        storage.kept_as = call.kept_as
        made = Tensor(self, storage, call.shape, call.dtype, call.strides or dense(call.shape))
        if self.tape.gradients and self._reached(call.inputs):
            saves = [*call.saves, *([made] if call.saves_result else [])]
            made.node = self.tape.node(call.name, call.inputs, saves, call.passes, call.scratch)
        elif self.tape.repeats and self.tape.first_run:
            self.tape.uses(call.inputs)
        if self.kernels is not None:
            self.kernels += launched(call, made, self.tape.path)
        if self.selected is not None:
            self.selected.ran(call, made)
        return made

    @staticmethod
    def _reached(inputs: tuple[Tensor | None, ...]) -> bool:
        for each in inputs:  # noqa: SIM110  # half as long as any() of a generator, and asked of every operation
            if each is not None and each.node is not None:
                return True
        return False

    def checkpoints(
        self, run: Callable[..., list[Tensor]], *given: Tensor, early_stop: bool = False, by_operation: bool = False
    ) -> list[Tensor]:
        """``run`` without keeping anything but what it is given; backward runs it again (torch.utils.checkpoint).

        That may be kept in the host's memory (transformers' ``activation_checkpointing_enable(offload=True)``, which is
        torch.autograd.graph.save_on_cpu around it).
        """
        if not self.tape.gradients:
            return run(*given)
        module, selected = list(self.tape.module), Selected() if by_operation else None
        with self.tape.to_be_repeated(), self._selecting(selected):
            results = run(*given)
        kept = selected.kept if selected is not None else []
        offloads = self.tape.offloads
        node = self.tape.node("checkpoint", given, kept if offloads else [*given, *kept], outputs=len(results))
        if offloads:
            given = tuple(self._stored(each, self.tape.on_host(each)) for each in given)
        made = [
            Tensor(self, each.storage, each.shape, each.dtype, each.strides, node=node, output=place)
            for place, each in enumerate(results)
        ]

        def again() -> list[Tensor]:
            before, self.tape.module = self.tape.module, module
            if selected is not None:
                selected.begins_again(node)
            with self._selecting(selected):
                computed = run(*map(self._brought_back, given)) if offloads else run(*given)
            self.tape.module = before
            self.held.clear()  # what it ran in has returned
            self.autocast_ends()
            return computed

        node.again = again
        return made

    def _brought_back(self, x: Tensor) -> Tensor:
        """A tensor from the host's memory, again on the device."""
        return self._stored(x, self.tape.new(x.shape, x.dtype, x.storage.label))

    def _stored(self, x: Tensor, storage: Storage) -> Tensor:
        """The same tensor elsewhere, dense."""
        return Tensor(self, storage, x.shape, x.dtype, dense(x.shape), node=x.node, output=x.output)

    @contextmanager
    def _selecting(self, selected: Selected | None) -> Iterator[None]:
        before, self.selected = self.selected, selected
        try:
            yield
        finally:
            self.selected = before

    def alias(self, name: str, weight: Tensor) -> None:
        """Another name of a weight, by which others are tied to it."""
        self.weights.setdefault(name, weight)

    def forget(self, name: str) -> None:
        """Another table goes by this name from now on."""
        self.weights.pop(name, None)

    def composite(self, call: Call, code: Callable[[], Tensor]) -> Tensor:
        """Run what a library runs for it; what an activation or a loss keeps stands under its own name."""
        if call.leaf is None or call.leaf.kind not in ("activation", "loss"):
            return code()
        with self.tape.inside(call.leaf.name):
            return code()

    def view(self, x: Tensor, shape: Shape, strides: Strides) -> Tensor:
        """The same memory in another shape."""
        return Tensor(self, x.storage, shape, x.dtype, strides, node=x.node, output=x.output)

    def new(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """Memory that nothing is computed from."""
        return Tensor(self, self.tape.new(shape, dtype, label), shape, dtype, dense(shape))

    def given(self, shape: Shape, dtype: str, label: str) -> Tensor:
        """A tensor that is there before anything runs, and is counted elsewhere."""
        return self._there(shape, dtype, label)

    def data(self, shape: Shape, label: str) -> Tensor:
        """One that is given, and whose gradient is asked for."""
        return self._there(shape, self.weights_format, label, Leaf(label))

    def _there(self, shape: Shape, dtype: str, label: str, node: Node | None = None) -> Tensor:
        return Tensor(self, self.tape.given(shape, dtype, label), shape, dtype, dense(shape), node=node)

    def split(self, x: Tensor, shapes: list[Shape], strides: Strides) -> list[Tensor]:
        """Views of parts of the last axis; their gradients are put together again."""
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
        """What autocast gives to a matrix product."""
        cast = self.numerics.autocast
        return x if cast is None or x.dtype != "float32" else self.to(x, cast)

    def upper(self, x: Tensor) -> Tensor:
        """What autocast gives to an operation that it runs in fp32."""
        return x if self.numerics.autocast is None else self.to(x, "float32")

    def to(self, x: Tensor, dtype: str) -> Tensor:
        """A copy in another format, laid out alike, or ``x`` itself."""
        return (
            x
            if x.dtype == dtype
            else self.call(Call("to", (x,), x.shape, dtype, strides=preserved(x), kernels=("_to_copy",)))
        )

    def lower_weight(self, weight: Tensor) -> Tensor:
        """The same for a parameter: its copy is made once, and kept as long as autocast lasts."""
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
        """The format that weights are in."""
        return self.numerics.weights

    @property
    def module(self) -> tuple[Place, ...]:
        """The modules that run, from the outermost."""
        return tuple(self.tape.module)

    def upper_format(self, dtype: str) -> str:
        """The format that autocast gives to an operation that it runs in fp32."""
        return "float32" if self.numerics.autocast else dtype

    def statistics(self, dtype: str) -> str:
        """The format of a LayerNorm's mean and deviation."""
        return "float32" if dtype == "float32" else self.numerics.statistics or "float32"

    @property
    def compute(self) -> str:
        """What matrix products run in."""
        return self.numerics.compute

    def until_layer_ends(self, x: Tensor) -> None:
        """A variable of the layer has it until the layer ends, though nothing reads it any more."""
        self.held.append(x)

    def layer_ends(self) -> None:
        """What its variables had is forgotten."""
        self.held.clear()

    def belongs(self, x: Tensor) -> None:
        """It belongs to the module that runs now, whichever keeps it."""
        x.storage.home = self.module

    def until_loss_ends(self, x: Tensor) -> None:
        """A variable of the whole model has it until there is a loss."""
        self.outputs.append(x)

    def until_end(self, x: Tensor) -> None:
        """It is there as long as the step lasts."""
        self.weights[f"{self.tape.path}.{x.storage.label}"] = x

    def loss_ends(self) -> None:
        """What the model's variables had is forgotten."""
        self.outputs.clear()

    def returns(self, name: str, x: Tensor) -> None:
        """The model gives it to its caller."""
        self.tape.returned.append(Found(name, x.dtype, x.shape))

    def needed(self, size: Num) -> None:
        """So many bytes for a moment."""
        self.tape.tracker.needed(size)

    @contextmanager
    def no_autocast(self) -> Iterator[None]:
        """Inside an operation that autocast has cast the inputs of, nothing is cast any more."""
        before, self.numerics = self.numerics, self.numerics._replace(autocast=None)
        try:
            yield
        finally:
            self.numerics = before

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        self.casts.clear()
