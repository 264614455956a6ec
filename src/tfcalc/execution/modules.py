"""Models that are modules, on a tape: transformers' code, or fused kernels in its place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tfcalc.backends.cache import Cache
from tfcalc.backends.transformers import Transformers
from tfcalc.core.component import Component
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.tensors import plain
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import add, dropout, scaled
from tfcalc.ops.products import linear
from tfcalc.ops.shapes import copied
from tfcalc.tape.interpreter import Interpreter
from tfcalc.tape.memory_tracker import MemoryTracker
from tfcalc.tape.numerics import Numerics
from tfcalc.tape.tape import Tape
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.trace import Part
from tfcalc.workload import Workload

MAPS = (".lora_A", ".lora_B")


class Tuned(NamedTuple):
    """What of a model is not trained, and which maps stand beside its own: by module, without numbers of layers."""

    frozen: frozenset[str]
    adapters: Mapping[str, tuple[Weight, Weight]]


def tuned(tree: Component) -> Tuned:
    """As the model's tree says, which has what is trained beside it."""
    frozen: set[str] = set()
    adapters: dict[str, dict[str, Weight]] = {}
    for node in tree.walk():
        path, own = plain(node.path), node.component.own
        if own.weights and all(weight.frozen for weight in own.weights):
            frozen.add(path)
        for name in MAPS:
            if node.path.endswith(name):
                adapters.setdefault(plain(node.path.removesuffix(name)), {})[name] = own.weights[0]
    both = {path: (maps[MAPS[0]], maps[MAPS[1]]) for path, maps in adapters.items() if len(maps) == 2}
    return Tuned(frozenset(frozen), both)


class Tuning(Interpreter):
    """Runs a model of which a part is trained, or small maps beside its own (LoRA as peft runs it)."""

    def __init__(self, tape: Tape, numerics: Numerics, *, every_layer: bool) -> None:
        super().__init__(tape, numerics, self._is_trained, every_layer=every_layer)
        self.tuned = Tuned(frozenset(), {})

    def _is_trained(self, path: str) -> bool:
        return not self.tuned.frozen or _plain(path) not in self.tuned.frozen

    def adapted(self, part: Part, x: Tensor, made: Tensor) -> Tensor:
        """``made + (x A) B · α/r``, where x is brought to the adapters' format, and the sum back to that of ``made``.

        Beside 4-bit weights autocast brings x to the format of products itself, and what the adapters make is brought
        back before the sum.

        Source: peft's tuners/lora/layer.py (Linear.forward) and tuners/lora/bnb.py (Linear4bit.forward).
        """
        maps = self.tuned.adapters.get(_plain(self.tape.path)) if self.tuned.adapters else None
        if maps is None:
            return made
        dtype, packed = self.numerics.adapters or self.numerics.weights, self.numerics.packed
        if packed:
            made = copied(made, made.shape, "clone", made.strides)
        read = x if packed and self.numerics.autocast else self.to(x, dtype)  # a variable has it to the end
        y = dropout(read, "lora_dropout") if self.numerics.drops_adapters else read
        for weight, name in zip(maps, MAPS, strict=True):
            with self.tape.inside(part.name + name):
                y = linear(y, self.weight(weight._replace(frozen=False), dtype=self.numerics.adapters))
        y = scaled(y)
        return add(made, self.to(y, made.dtype)) if packed else self.to(add(made, y), made.dtype)


_plain = lru_cache(maxsize=4096)(plain)


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
        self.trace = Tuning(self.tape, numerics, every_layer=every_layer)
        self.cache: Cache | None = None

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        self.trace.autocast_ends()

    def run_experts_by(self, code: str) -> None:
        """Those of transformers' ``experts_implementation``."""
        self.backend.experts_by = code

    def __call__(self, tree: Component) -> Tensor:
        """From the token ids to the loss; ``tree`` says what is trained."""
        self.trace.tuned = tuned(tree)
        stream = self.run.target
        ids = self.trace.given((stream.batch, stream.length), "int64", "token ids")
        return self.module(ids, Context(self.run, stream, self.backend, cache=self.cache))
