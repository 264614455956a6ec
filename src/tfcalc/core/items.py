"""The items of a cost, one by one, with their factors: what ``tfcalc explain`` shows of an operation."""

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
    """Return the stored weights; a tied weight is listed where its storage is."""
    return [Item(weight.name, weight.shape, weight.size) for weight in cost.weights if weight.tied_to is None]


def major(cost: Cost) -> list[Item]:
    """Return the stored weights without biases and norms."""
    return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.minor)))


def trained(cost: Cost) -> list[Item]:
    """Return the stored weights that are trained."""
    return stored(cost._replace(weights=tuple(weight for weight in cost.weights if not weight.frozen)))


def held(cost: Cost, bits: int) -> list[Item]:
    """Return the bytes of the stored weights, and of the buffers."""
    weights = [in_bytes(name, factors, bits) for name, factors, _ in stored(cost)]
    wide = max(bits, SMALLEST_BUFFER)
    return weights + [in_bytes(buffer.name, buffer.shape, wide) for buffer in cost.buffers]


def in_bytes(name: str, factors: tuple[Num, ...], bits: int) -> Item:
    """Return the bytes of a tensor: bytes per number times its sizes; one total if numbers share a byte.

    >>> in_bytes("W_1", (512, 2048), 16).factors, in_bytes("W_1", (3, 5), 4).factors
    ((2, 512, 2048), (8,))
    """
    size = bytes_of(product(factors), bits)
    if bits % 8:
        return Item(name, (size,), size)
    return Item(name, factors if bits == 8 else (bits // 8, *factors), size)


def work(cost: Cost, *, training: bool, everything: bool) -> list[Item]:
    """Return the matrix products, and with ``everything`` the elementwise work, of a forward pass or training step."""
    passes = 1 + (cost.again and training)
    items = [
        (product.name, (*([passes + product.backward + product.overcounted] if training else []), *product.factors))
        for product in cost.products
    ]
    if everything:
        items += [
            (work.name, (operations, work.elements))
            for work in cost.elementwise
            if (operations := passes * work.forward + work.backward * training)
        ]
    return [Item(name, factors, product(factors)) for name, factors in items]


def buffers(cost: Cost) -> list[Item]:
    """Return the buffers: tensors stored with the model that are no parameters."""
    return [Item(buffer.name, buffer.shape, buffer.size) for buffer in cost.buffers]


def _times(times: Num, factors: tuple[Num, ...]) -> tuple[Num, ...]:
    """Return the factors with ``times`` in front, unless it is 1."""
    return factors if isinstance(times, int) and times == 1 else (times, *factors)


class Passes(NamedTuple):
    """A choice of a step's passes (``again``: recomputation), and of products or elementwise work."""

    forward: bool = False
    backward: bool = False
    again: bool = False
    overcounted: bool = False
    products: bool = True
    elementwise: bool = True

    def items(self, cost: Cost) -> list[Item]:
        """Return the work of these passes, one by one."""
        runs = self.forward + (self.again and cost.again)
        of_products: list[tuple[str, Num, tuple[Num, ...]]] = [
            (
                matmul.name,
                runs + matmul.backward * self.backward + matmul.overcounted * (self.backward or self.overcounted),
                matmul.factors,
            )
            for matmul in cost.products
            if self.products
        ]
        of_elements: list[tuple[str, Num, tuple[Num, ...]]] = [
            (work.name, runs * work.forward + work.backward * self.backward, (work.elements,))
            for work in cost.elementwise
            if self.elementwise
        ]
        rows = (*of_products, *of_elements)
        return [Item(name, _times(times, factors), product((times, *factors))) for name, times, factors in rows]


def steps(cost: Cost) -> list[Item]:
    """Return everything that takes time in a forward pass: products, elementwise work, and table lookups."""
    looked_up = isinstance(cost.lookups, int) and cost.lookups == 0
    return Passes(forward=True).items(cost._replace(elementwise=tuple(e for e in cost.elementwise if e.forward))) + (
        [] if looked_up else [Item("lookup", (cost.lookups,), cost.lookups)]
    )


def step_by_step(cost: Cost, *, everything: bool) -> list[Item]:
    """Return the work of a training step, with forward, recomputed and backward products as separate items."""
    items: list[Item] = []
    trained = {weight.name for weight in cost.weights if not weight.frozen}
    for matmul in cost.products:
        rows = [matmul.name, *([f"{matmul.name}, recomputed"] if cost.again else [])]
        rows += gradients(matmul.name, matmul.backward, trained)
        items += [Item(row, matmul.factors, matmul.flops) for row in rows]
        rest = matmul.backward + matmul.overcounted - (len(rows) - 1 - cost.again)
        if not (isinstance(rest, int) and rest == 0):
            factors = (rest, *matmul.factors)
            items.append(Item(f"{matmul.name}, further backward products", factors, product(factors)))
    if everything:
        for work in cost.elementwise:
            passes = ((work.name, work.forward * (1 + cost.again)), (f"{work.name}, backward", work.backward))
            items += [
                Item(name, (times, work.elements), product((times, work.elements)))
                for name, times in passes
                if not (isinstance(times, int) and times == 0)
            ]
    return items


def gradients(name: str, backward: Num, trained: Collection[str]) -> list[str]:
    """Return the names of the backward products of ``A B``: the gradients of its two factors, given dY.

    With three products, a fused kernel first recomputes ``A B``. A single one is the gradient of a ``trained`` weight
    if the right factor is one, otherwise of the left factor.

    >>> gradients("X W_Q", 2, ["W_Q"]), gradients("X W_Q", 1, ["W_Q"])
    (['dX = dY W_Qᵀ', 'dW_Q = Xᵀ dY'], ['dW_Q = Xᵀ dY'])
    >>> gradients("Q Kᵀ", 2, []), gradients("P V", 2, [])
    (['dQ = dY K', 'dK = dYᵀ Q'], ['dP = dY Vᵀ', 'dV = Pᵀ dY'])
    """
    factors = name.split(" ")
    if not isinstance(backward, int) or len(factors) != 2:
        return []
    left, right = factors
    of_left = f"d{left} = dY {_transposed(right)}"
    of_right = f"d{_transposed(right)} = dYᵀ {left}" if right.endswith("ᵀ") else f"d{right} = {_transposed(left)} dY"
    match backward:
        case 1:
            return [of_right if right in trained else of_left]
        case 2:
            return [of_left, of_right]
        case 3:
            return [f"{name}, again in a fused kernel", of_left, of_right]
    return []


def _transposed(matrix: str) -> str:
    """Return the name of a matrix's transpose."""
    return matrix.removesuffix("ᵀ") if matrix.endswith("ᵀ") else f"{matrix}ᵀ"
