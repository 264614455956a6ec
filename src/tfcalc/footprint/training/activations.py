"""What is kept for backward, as a tree: module by module, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Held
from tfcalc.core.number import Num
from tfcalc.number_formats import WIDTHS
from tfcalc.tape.memory_tracker import Place
from tfcalc.tape.value import Kept


class _Module:
    """A module while its tree is put together."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.held: list[Held] = []
        self.inside: dict[Place, _Module] = {}

    def tree(self, kinds: Mapping[str, str]) -> Component:
        parts = tuple(module.tree(kinds) for module in self.inside.values())
        kind = kinds.get(self.place.name, "activations")
        own = Cost(held=tuple(self.held))
        if parts and self.held:  # what a module keeps beside its parts stands in a part of its own
            parts = (Component("itself", "activations", own), *parts)
            own = Cost()
        return Component(self.place.name, kind, own, parts, copies=self.place.copies)


def activations(kept: Iterable[Kept], kinds: Mapping[str, str]) -> Component:
    """The tensors that autograd keeps, under the modules that keep them; equal layers are one with copies.

    ``kinds`` says of a module's name what it is (``attention``, ``ffn``, …).

    Source: torch.autograd.graph.saved_tensors_hooks sees the same, each storage once.
    """
    whole = _Module(Place("activations"))
    for one in kept:
        module = whole
        for place in one.module[1:]:  # without the model's own name
            module = module.inside.setdefault(place, _Module(place))
        module.held.append(_tensor(one))
    return whole.tree(kinds)


def _tensor(one: Kept) -> Held:
    size: Num = one.storage.elements
    return Held(f"{one.storage.label} (saved by {one.operation})", (size,), 8 * WIDTHS[one.storage.dtype])
