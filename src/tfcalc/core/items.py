"""What a cost is made of, one by one, for those who want to see more than the sum (``tfcalc explain``)."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.cost import Cost
from tfcalc.core.measure import bytes_of
from tfcalc.core.number import Num, product


class Item(NamedTuple):
    """One tensor, product or pass over elements: its name, the factors that make its size, and its value."""

    name: str
    factors: tuple[Num, ...]
    value: Num


def stored(cost: Cost, bits: int | None = None) -> list[Item]:
    """The weights that are stored here: their sizes, or their bytes at so many ``bits`` each."""
    kept = (weight for weight in cost.weights if weight.tied_to is None)
    if bits is None:
        return [Item(weight.name, weight.shape, weight.size) for weight in kept]
    return [Item(weight.name, weight.shape, bytes_of(weight.size, bits)) for weight in kept]


def work(cost: Cost, *, training: bool, everything: bool) -> list[Item]:
    """The matrix products, and with ``everything`` the elementwise work, of a forward pass or a training step."""
    factors = {each.name: (*([1 + each.backward] if training else []), *each.factors) for each in cost.products}
    if everything:
        factors |= {
            each.name: (operations, each.elements)
            for each in cost.elementwise
            if (operations := each.forward + each.backward * training)
        }
    return [Item(name, each, product(each)) for name, each in factors.items()]
