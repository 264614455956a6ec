"""What a cost is made of, one by one, for those who want to see more than the sum (``tfcalc explain``)."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.cost import Cost
from tfcalc.core.measure import SMALLEST_BUFFER, bytes_of
from tfcalc.core.number import Num, product


class Item(NamedTuple):
    """One tensor, product or pass over elements: its name, the factors that make its size, and its value."""

    name: str
    factors: tuple[Num, ...]
    value: Num


def stored(cost: Cost) -> list[Item]:
    """The weights that are stored here, a tied one where it is."""
    return [Item(weight.name, weight.shape, weight.size) for weight in cost.weights if weight.tied_to is None]


def trained(cost: Cost) -> list[Item]:
    """The same without those that are frozen."""
    return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.frozen)))


def held(cost: Cost, bits: int) -> list[Item]:
    """The bytes of the weights that are stored here, and of the buffers."""
    weights = [in_bytes(name, factors, bits) for name, factors, _ in stored(cost)]
    wide = max(bits, SMALLEST_BUFFER)
    return weights + [in_bytes(buffer.name, buffer.shape, wide) for buffer in cost.buffers]


def in_bytes(name: str, factors: tuple[Num, ...], bits: int) -> Item:
    """The bytes of a tensor: those of one number times its sizes; of numbers that share a byte, their sum.

    >>> in_bytes("W_1", (512, 2048), 16).factors, in_bytes("W_1", (3, 5), 4).factors
    ((2, 512, 2048), (8,))
    """
    size = bytes_of(product(factors), bits)
    if bits % 8:
        return Item(name, (size,), size)
    return Item(name, factors if bits == 8 else (bits // 8, *factors), size)


def work(cost: Cost, *, training: bool, everything: bool) -> list[Item]:
    """The matrix products, and with ``everything`` the elementwise work, of a forward pass or a training step."""
    passes = 1 + (cost.again and training)
    items = [
        (each.name, (*([passes + each.backward + each.overcounted] if training else []), *each.factors))
        for each in cost.products
    ]
    if everything:
        items += [
            (each.name, (operations, each.elements))
            for each in cost.elementwise
            if (operations := passes * each.forward + each.backward * training)
        ]
    return [Item(name, factors, product(factors)) for name, factors in items]


def buffers(cost: Cost) -> list[Item]:
    """The numbers that are held with the model and are no parameters."""
    return [Item(buffer.name, buffer.shape, buffer.size) for buffer in cost.buffers]


class Passes(NamedTuple):
    """Which of a step's passes are meant, and of which work."""

    forward: bool = False
    backward: bool = False
    again: bool = False
    overcounted: bool = False
    products: bool = True
    elementwise: bool = True

    def items(self, cost: Cost) -> list[Item]:
        """The work of these passes, one by one."""
        runs = self.forward + (self.again and cost.again)
        of_products: list[tuple[str, Num, tuple[Num, ...]]] = [
            (
                each.name,
                runs + each.backward * self.backward + each.overcounted * (self.backward or self.overcounted),
                each.factors,
            )
            for each in cost.products
            if self.products
        ]
        of_elements: list[tuple[str, Num, tuple[Num, ...]]] = [
            (each.name, runs * each.forward + each.backward * self.backward, (each.elements,))
            for each in cost.elementwise
            if self.elementwise
        ]
        return [
            Item(name, (times, *factors), product((times, *factors)))
            for name, times, factors in (*of_products, *of_elements)
        ]
