"""What a cost is made of, one by one, for those who want to see more than the sum (``tfcalc explain``)."""

from __future__ import annotations

from collections.abc import Collection
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


def major(cost: Cost) -> list[Item]:
    """The same without biases and norms."""
    return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.minor)))


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


def _times(times: Num, factors: tuple[Num, ...]) -> tuple[Num, ...]:
    """The factors of so many, without the number where it is one."""
    return factors if isinstance(times, int) and times == 1 else (times, *factors)


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
        found = (*of_products, *of_elements)
        return [Item(name, _times(times, factors), product((times, *factors))) for name, times, factors in found]


def steps(cost: Cost) -> list[Item]:
    """Everything that takes time in a forward pass: products, passes over elements, and rows that are looked up."""
    looked_up = isinstance(cost.lookups, int) and cost.lookups == 0
    return Passes(forward=True).items(cost._replace(elementwise=tuple(e for e in cost.elementwise if e.forward))) + (
        [] if looked_up else [Item("lookup", (cost.lookups,), cost.lookups)]
    )


def step_by_step(cost: Cost, *, everything: bool) -> list[Item]:
    """The work of a training step, each product of the forward pass, of the backward pass, and again by itself."""
    items: list[Item] = []
    trained = {weight.name for weight in cost.weights if not weight.frozen}
    for each in cost.products:
        rows = [each.name, *([f"{each.name}, recomputed"] if cost.again else [])]
        rows += gradients(each.name, each.backward, trained)
        items += [Item(row, each.factors, each.flops) for row in rows]
        rest = each.backward + each.overcounted - (len(rows) - 1 - cost.again)
        if not (isinstance(rest, int) and rest == 0):
            factors = (rest, *each.factors)
            items.append(Item(f"{each.name}, further backward products", factors, product(factors)))
    if everything:
        for work in cost.elementwise:
            named = ((work.name, work.forward * (1 + cost.again)), (f"{work.name}, backward", work.backward))
            items += [
                Item(name, (times, work.elements), product((times, work.elements)))
                for name, times in named
                if not (isinstance(times, int) and times == 0)
            ]
    return items


def gradients(name: str, backward: Num, trained: Collection[str]) -> list[str]:
    """The products of backward that ``A B`` takes for the gradients of its two factors, the result's being dY.

    A fused kernel takes ``A B`` again before them. Where there is one alone, it is that of a ``trained`` weight, or
    else of the other factor.

    >>> gradients("X W_Q", 2, ["W_Q"]), gradients("X W_Q", 1, ["W_Q"])
    (['dX = dY W_Qᵀ', 'dW_Q = Xᵀ dY'], ['dW_Q = Xᵀ dY'])
    >>> gradients("Q Kᵀ", 2, []), gradients("P V", 2, [])
    (['dQ = dY K', 'dK = dYᵀ Q'], ['dP = dY Vᵀ', 'dV = Pᵀ dY'])
    """
    factors = name.split(" ")
    if not isinstance(backward, int) or len(factors) != 2:
        return []
    left, right = factors
    of_left = f"d{left} = dY {_turned(right)}"
    of_right = f"d{_turned(right)} = dYᵀ {left}" if right.endswith("ᵀ") else f"d{right} = {_turned(left)} dY"
    match backward:
        case 1:
            return [of_right if right in trained else of_left]
        case 2:
            return [of_left, of_right]
        case 3:
            return [f"{name}, again in a fused kernel", of_left, of_right]
    return []


def _turned(matrix: str) -> str:
    """The transpose of a matrix."""
    return matrix.removesuffix("ᵀ") if matrix.endswith("ᵀ") else f"{matrix}ᵀ"
