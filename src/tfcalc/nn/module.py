"""What all modules are: values with a name, which hold weights and other modules, and can be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost
from tfcalc.core.number import Num
from tfcalc.nn.frozen import Frozen
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    from tfcalc.nn.context import Context
    from tfcalc.tape.tensor import Trace


class Module(Frozen):
    """A part of a model. A subclass names its fields and says how its ``forward`` goes.

    Fields that are modules, or tuples of them, are its parts.
    """

    kind = ""
    loops = False
    """Whether its forward is a loop over time, of which one turn stands for many."""

    name: str

    @property
    def copies(self) -> Num:
        """How many of it there are in the module above, each with weights of its own."""
        return 1

    @property
    def passes(self) -> Num:
        """How often each of them runs, with the same weights."""
        return 1

    @property
    def active(self) -> Num | None:
        """How many of them a token goes through; None: all."""
        return None

    @property
    def apart(self) -> bool:
        """Whether, as a layer, it is told from others even where they cost the same."""
        return False

    # --- what it holds

    def own_params(self) -> Cost:
        """Its own weights and buffers, without those of its parts."""
        return Cost()

    def weights(self, trace: Trace) -> list[Tensor]:
        """Its own weights, where it runs."""
        return [trace.weight(each) for each in self.own_params().weights]

    @property
    def parts(self) -> Iterator[Module]:
        """The modules that stand in its fields, in their order."""
        for value in self.__dict__.values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, Module):
                    yield each

    def components(self) -> Iterator[Component]:
        """What it and its parts hold: the tree of parameters, for which nothing needs to run."""
        inside = tuple(each for part in self.parts for each in part.components())
        yield Component(self.name, self.kind, self.own_params(), inside, self.copies, self.active, self.passes)

    @property
    def beside_text(self) -> Iterator[Module]:
        """The parts that read images or sounds for a model that trains on text alone."""
        for part in self.parts:
            yield from part.beside_text

    def all_of(self) -> Iterator[Module]:
        """It, and all modules in it."""
        yield self
        for part in self.parts:
            yield from part.all_of()

    # --- how it runs

    def runs(self, ctx: Context) -> bool:
        """Whether it runs at all: not what reads something that is not there."""
        return True

    def __call__(self, x: Tensor, *given: Any) -> Tensor:
        """Run it on this tensor's trace."""
        with x.trace.inside(self):
            return self.forward(x, *given)

    def call_consuming(self, given: list[Tensor], *more: Any) -> Tensor:
        """Like a call, but a module may pop its input from the list, so that no caller's reference keeps it alive."""
        return self(given[0], *more)

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        """What it makes of ``x``."""
        raise NotImplementedError
