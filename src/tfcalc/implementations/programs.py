"""Which program runs a model, by whose code is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.tape.operations import Numerics
from tfcalc.tape.tape import Tape
from tfcalc.tape.value import Value

if TYPE_CHECKING:
    from tfcalc.implementations.transformers.running import Running
    from tfcalc.model import Model
    from tfcalc.workload import Workload


class Program(Protocol):
    """A model that can be run on its tape."""

    @property
    def tape(self) -> Tape:
        """Where it runs."""
        ...

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        ...

    def run_experts_by(self, code: str) -> None:
        """Those of transformers' ``experts_implementation``: ``grouped_mm``, unless ``batched_mm`` is asked for."""
        ...

    def __call__(self, tree: Component) -> Value:
        """Run the whole model; the answer is the loss, or what stands in its place."""
        ...


class Ran:
    """A program of transformers' kind: the parts of a tree run one after another, with adapters beside linear maps."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.tape = running.t

    def autocast_ends(self) -> None:
        """Autocast's copies of weights are forgotten."""
        self.tape.autocast_ends()

    def run_experts_by(self, code: str) -> None:
        """Those of transformers' ``experts_implementation``."""
        self.running.experts = code

    def __call__(self, tree: Component) -> Value:
        """From the token ids to the loss."""
        from tfcalc.implementations.transformers.adapters import adapters

        self.running.adapters = adapters(tree)
        return self.running(tree, self.running.ids)


def program(
    model: Model,
    run: Workload,
    numerics: Numerics,
    implementation: str,
    *,
    every_layer: bool = True,
    ends_alone: bool = False,
) -> Program:
    """The model on a new tape. Raises InvalidModel where this code does not run such a model.

    ``every_layer`` runs, rather than one of each kind; or, of a row of equal layers, those at its ends
    (``ends_alone``), which is enough to find when most is live.
    """
    from tfcalc.configs.published import HFModel
    from tfcalc.families.transformer import Transformer

    if isinstance(model, HFModel) and implementation in PUBLISHED and (module := model.module()) is not None:
        from tfcalc.backends.transformers import Transformers
        from tfcalc.implementations.modules import ModuleProgram

        backend = Transformers()
        if implementation == "fused":
            from tfcalc.backends.fused import Fused

            backend = Fused()
        made = ModuleProgram(module, run, numerics, backend, every_layer=every_layer)
        made.trace.ends_alone = ends_alone
        return made
    if isinstance(model, HFModel) and implementation in PUBLISHED:
        from tfcalc.implementations.transformers.program import running

        code = {"implementation": "fused"} if implementation == "fused" else {}
        return Ran(running(model, run, numerics, every_layer=every_layer, **code))
    if isinstance(model, Transformer) and implementation in CLASSIC:
        from tfcalc.implementations.torch_nn import of_torch

        made = of_torch(model, run, numerics, every_layer=every_layer)
        made.trace.ends_alone = ends_alone
        return made
    known = PUBLISHED if isinstance(model, HFModel) else CLASSIC
    raise InvalidModel(f"backend {implementation!r} cannot run {model.summary}", f"choose {' or '.join(known)}")


PUBLISHED = ("auto", "transformers", "fused")
CLASSIC = ("auto", "torch")
"""Whose code can run a model of a config.json, and the classic one."""
