"""Which program runs a model, by whose code is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.tape.operations import Numerics, Torch
from tfcalc.tape.tape import Value

if TYPE_CHECKING:
    from tfcalc.configs.published import Published
    from tfcalc.model import Model
    from tfcalc.workload import Workload


class Program(Protocol):
    """A model that can be run on its tape."""

    @property
    def tape(self) -> Torch:
        """Where it runs."""
        ...

    def __call__(self, tree: Component) -> Value:
        """Run the whole model; the answer is the loss, or what stands in its place."""
        ...


class Ran:
    """A published model as transformers, or fused kernels, run it."""

    def __init__(self, model: Published, run: Workload, numerics: Numerics, *, every_layer: bool) -> None:
        from tfcalc.implementations.transformers.program import running

        self.running = running(model, run, numerics, every_layer=every_layer)
        self.tape = self.running.t

    def __call__(self, tree: Component) -> Value:
        """From the token ids to the loss."""
        return self.running(tree, self.running.ids)


def program(
    model: Model, run: Workload, numerics: Numerics, implementation: str, *, every_layer: bool = True
) -> Program:
    """The model on a new tape. Raises InvalidModel where this code does not run such a model."""
    from tfcalc.configs.published import Published

    if isinstance(model, Published):
        return Ran(model, run, numerics, every_layer=every_layer)
    raise InvalidModel(f"implementation {implementation!r} does not run this model", "choose another")
