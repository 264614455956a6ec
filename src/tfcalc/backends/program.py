"""Programs: a model on a tape, by the code of one backend, with adapters beside its own maps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from tfcalc.backends import BACKENDS, backend
from tfcalc.backends.cache import ModelCache
from tfcalc.core.component import Component, Weight
from tfcalc.core.measure import plain
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm
from tfcalc.nn.feed_forward import GatedFeedForward
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Context, Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import add, dropout, scaled
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import copied
from tfcalc.tape.interpreter import Interpreter, Numerics
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Part, Tensor
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.backends.log_probs import Scoring
    from tfcalc.backends.transformers import Transformers
    from tfcalc.model import Model


A, B, MAGNITUDE = ".lora_A", ".lora_B", ".lora_magnitude_vector"


class TrainedParts(NamedTuple):
    """Frozen modules of a model, and the adapters beside its linear maps, by path without layer numbers.

    Adapters are tensors by name: A and B, and with DoRA the magnitudes.
    """

    frozen: frozenset[str]
    adapters: Mapping[str, Mapping[str, Weight]]


def tuned(tree: Component) -> TrainedParts:
    """Frozen modules and adapters of a tree."""
    frozen: set[str] = set()
    adapters: dict[str, dict[str, Weight]] = {}
    for node in tree.walk():
        path, own = plain(node.path), node.component.own
        if own.weights and all(weight.frozen for weight in own.weights):
            frozen.add(path)
        for name in (A, B, MAGNITUDE):
            if node.path.endswith(name):
                adapters.setdefault(plain(node.path.removesuffix(name)), {})[name] = own.weights[0]
    return TrainedParts(frozenset(frozen), {path: maps for path, maps in adapters.items() if {A, B} <= maps.keys()})


class AdapterInterpreter(Interpreter):
    """Runs a model of which a part is trained, or small maps beside its own (LoRA as peft runs it)."""

    def __init__(self, tape: Tape, numerics: Numerics, *, every_layer: bool) -> None:
        super().__init__(tape, numerics, self._is_trained, every_layer=every_layer)
        self.tuned = TrainedParts(frozenset(), {})
        self.dora_computes_again = True

    def _is_trained(self, path: str) -> bool:
        return not self.tuned.frozen or _module_path(path) not in self.tuned.frozen

    def adapted(self, part: Part, x: Tensor, made: Tensor) -> Tensor:
        """``made + (x A) B · α/r``, where x is brought to the adapters' format, and the sum back to that of ``made``.

        Beside 4-bit weights autocast brings x to the format of products itself, and what the adapters make is brought
        back before the sum. DoRA adds another term (:mod:`tfcalc.backends.dora`).

        Source: peft's tuners/lora/layer.py (Linear.forward) and tuners/lora/bnb.py (Linear4bit.forward).
        """
        maps = self.tuned.adapters.get(_module_path(self.tape.path)) if self.tuned.adapters else None
        if maps is None:
            return made
        dtype, packed = self.numerics.adapters or self.numerics.weights, self.numerics.packed
        if packed:
            made = copied(made, made.shape, "clone", made.strides)
        read = x if packed and self.numerics.autocast else self.to(x, dtype)  # a variable has it to the end
        y = dropout(read, "lora_dropout") if self.numerics.drops_adapters else read
        if MAGNITUDE in maps:
            result = add(made, self._by_magnitude(part, y, made, maps))
            return result if packed and self.numerics.autocast else self.to(result, made.dtype)
        for name in (A, B):
            with self.tape.inside(part.name + name):
                y = linear(y, self._of_adapter(maps[name]))
        y = scaled(y)
        return add(made, self.to(y, made.dtype)) if packed else self.to(add(made, y), made.dtype)

    def _of_adapter(self, weight: Weight) -> Tensor:
        """Return a tensor of the adapter that runs."""
        return self.weight(weight._replace(frozen=False), dtype=self.numerics.adapters)

    def _by_magnitude(self, part: Part, x: Tensor, made: Tensor, maps: Mapping[str, Weight]) -> Tensor:
        """Return what DoRA adds to the map's own result ``made``, which it reads without its bias.

        With dropout peft has a second product of W, with what is left of x; torchtune has not.
        """
        from tfcalc.backends.dora import by_magnitude  # rarely needed

        weight, *bias = (self.weight(each) for each in part.own_params().weights)
        if self.packed and not weight.needs_gradient:
            weight = self.new(weight.shape, self.compute, "unpacked weight")
        with self.tape.inside(part.name + MAGNITUDE):
            tensors = [self._of_adapter(maps[name]) for name in (A, B, MAGNITUDE)]
            if self.dora_computes_again and self.numerics.drops_adapters:
                return by_magnitude(x, None, weight, *tensors)
            return by_magnitude(x, add(made, bias[0]) if bias else made, weight, *tensors)


_module_path = lru_cache(maxsize=4096)(plain)


class ModuleProgram:
    """A model that can be run on its tape."""

    def __init__(
        self, module: Module, run: Workload, numerics: Numerics, backend: Transformers, *, every_layer: bool = True
    ) -> None:
        self.module = module
        self.backend = backend
        self.run = self.backend.workload(run, numerics)
        self.tape = Tape(MemoryTracker(watch=every_layer))
        self.tape.sums_in_place = not numerics.traced
        self.trace = AdapterInterpreter(self.tape, numerics, every_layer=every_layer)
        self.trace.dora_computes_again = backend.dora_computes_again
        self.cache: ModelCache | None = None

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        self.trace.autocast_ends()

    def run_experts_by(self, code: str) -> None:
        """Choose transformers' ``experts_implementation``."""
        self.backend.experts_by = code

    def __call__(self, tree: Component) -> Tensor:
        """Run the model from token ids to the loss; ``tree`` says what is trained."""
        self.trace.tuned = tuned(tree)
        stream = self.run.target
        ids = self.trace.given((stream.batch, stream.length), "int64", "token ids")
        return self.module(ids, Context(self.run, stream, self.backend, cache=self.cache))


AUTO = "auto"


class Code(NamedTuple):
    """Code that runs a model: a ``backend``, its ``loss`` where that is not the usual one, and whether it compiles.

    ``scoring``: the loss is one of log-probabilities, read so.
    """

    backend: str = AUTO
    loss: str = AUTO
    compiles: bool = False
    scoring: Scoring | None = None


def program(
    model: Model,
    run: Workload,
    numerics: Numerics,
    name: str,
    loss: str = AUTO,
    compiles: bool = False,
    scoring: Scoring | None = None,
    *,
    every_layer: bool = True,
    ends_alone: bool = False,
) -> ModuleProgram:
    """The model on a new tape. Raises InvalidModel where this code does not run such a model.

    The code is a :class:`Code`. ``every_layer`` runs, rather than one of each kind; or, of a row of equal layers, those
    at its ends (``ends_alone``), which is enough to find when most is live.
    """
    code = backend_for(model, name)()
    code.loss = code.loss if loss == AUTO else loss
    code.scoring = scoring
    if compiles:
        from tfcalc.backends.compiled import Compiled  # rarely needed

        code.compiled = Compiled(code)
    made = ModuleProgram(model.module(), run, numerics, code, every_layer=every_layer)
    made.trace.ends_alone = ends_alone
    return made


def compilable(model: Module, *, drops: bool) -> bool:
    """Return whether all its layers are RMSNorms, plain attention and gated networks, whose saved bytes are known."""
    stacks = [each for each in model.all_of() if isinstance(each, Stack)]
    return bool(stacks) and all(_plain(layer, drops) for stack in stacks for layer in stack.layers)


MORE = ("tempered", "clipped", "capped", "sinks", "sub_norm", "gate", "alibi", "table")
"""Fields of attention by which it is more than its maps, norms, rotations and kernel."""


def _plain(layer: Module, drops: bool) -> bool:
    if type(layer) is not PreNorm or layer.in_float32 or (drops and layer.dropped):
        return False
    attention, network = (*layer.sublayers, None, None)[:2]
    if type(attention) is not Attention or type(network) is not GatedFeedForward or len(layer.sublayers) != 2:
        return False
    norms = [each for each in layer.all_of() if isinstance(each, Norm)]
    more = any(getattr(attention, name) for name in MORE) or network.gate is None or network.sub_norm is not None
    dropped = drops and (attention.dropout or network.dropout)
    return not more and not dropped and all(norm.form.startswith("rmsnorm") for norm in norms)


def backend_for(model: Model, name: str) -> type[Transformers]:
    """Return the class of the backend of this name; "auto" is the first that runs the model. Raises InvalidModel."""
    candidates = (backend(known) for known in BACKENDS if name in (AUTO, known))
    code = next((code for code in candidates if code.runs(model)), None)
    if code is None:
        known = [AUTO, *(known for known in BACKENDS if backend(known).runs(model))]
        raise InvalidModel(f"backend {name!r} cannot run {model.summary}", f"choose {' or '.join(known)}")
    code.refuse(model)
    return code
