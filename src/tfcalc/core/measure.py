"""Measures of an operation's cost, one line each, which the tree adds up for any component.

The same items one by one, with their factors, are what ``tfcalc explain`` shows; and tensors by their names in a
checkpoint, without layer numbers, are what ``tfcalc verify`` compares.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from math import gcd

from tfcalc.core.component import ACTIVE, RUN, STORED, Component, Cost, Measure, Node, Weight
from tfcalc.core.number import Num, ceil_div, product, total
from tfcalc.core.traced import formula_of, value_of
from tfcalc.named_tuple import NamedTuple


def _stored(of: Callable[[Cost], Num]) -> Measure:
    return Measure(of, STORED)


def _run(of: Callable[[Cost], Num]) -> Measure:
    return Measure(of, RUN)


SMALLEST_BUFFER = 16
"""Fewest bits per number of a buffer: buffers are not quantized with the weights."""


@_stored
def params(cost: Cost) -> Num:
    """Parameters: each stored weight once, a tied one where it is stored."""
    return total(weight.size for weight in cost.weights if weight.tied_to is None)


active_params = Measure(params.of, ACTIVE)
"""Active parameters (per token): all but those of the experts that a token is not routed to."""


@_stored
def unpublished_params(cost: Cost) -> Num:
    """Elements that transformers allocates beyond the published weights."""
    return total(weight.size for weight in cost.unpublished)


@_stored
def spared_params(cost: Cost) -> Num:
    """Active parameters that a token does not use if it is sent to experts without weights, as far as there are any."""
    return cost.spared


@_stored
def major_params(cost: Cost) -> Num:
    """Parameters without biases and norms, as rules of thumb count (12h² per encoder layer)."""
    return total(weight.size for weight in cost.weights if weight.tied_to is None and not weight.minor)


@_stored
def frozen_params(cost: Cost) -> Num:
    """Parameters that are never trained, such as sinusoids that a model stores as a table."""
    return total(weight.size for weight in cost.weights if weight.frozen and weight.tied_to is None)


@_stored
def trainable_params(cost: Cost) -> Num:
    """Parameters that a training step updates."""
    return total(weight.size for weight in cost.weights if not weight.frozen and weight.tied_to is None)


@_stored
def buffer_elements(cost: Cost) -> Num:
    """Elements of the buffers: tensors stored with the model that are no parameters."""
    return total(buffer.size for buffer in cost.buffers)


@_run
def matmul_flops(cost: Cost) -> Num:
    """FLOPs of the forward pass's matrix products (a multiply-add is 2)."""
    return total(product.flops for product in cost.products)


@_run
def matmul_backward_flops(cost: Cost) -> Num:
    """FLOPs of the backward pass's matrix products, including those that FlopCounterMode counts in error."""
    return total((product.backward + product.overcounted) * product.flops for product in cost.products)


@_run
def overcounted_flops(cost: Cost) -> Num:
    """FLOPs of backward products that FlopCounterMode counts though no kernel runs them."""
    return total(product.overcounted * product.flops for product in cost.products)


@_run
def elementwise_flops(cost: Cost) -> Num:
    """FLOPs of the forward pass that are no matrix product."""
    return total(work.forward * work.elements for work in cost.elementwise)


@_run
def elementwise_backward_flops(cost: Cost) -> Num:
    """FLOPs of the backward pass that are no matrix product."""
    return total(work.backward * work.elements for work in cost.elementwise)


@_run
def matmul_again_flops(cost: Cost) -> Num:
    """FLOPs of the matrix products that are recomputed in backward, as their results were not saved."""
    return matmul_flops(cost) if cost.again else 0


@_run
def elementwise_again_flops(cost: Cost) -> Num:
    """FLOPs of recomputation in backward that are no matrix product."""
    return elementwise_flops(cost) if cost.again else 0


def flops_of(training: bool, everything: bool) -> Measure:
    """Return the FLOPs of a forward pass or a training step: of matrix products only, or of ``everything``."""
    chosen = [matmul_flops]
    chosen += [matmul_backward_flops, matmul_again_flops] * training
    chosen += [elementwise_flops] * everything
    chosen += [elementwise_backward_flops, elementwise_again_flops] * (training and everything)
    return Measure(lambda cost: total(measure(cost) for measure in chosen), RUN)


@_run
def steps(cost: Cost) -> Num:
    """Operations that take time: all FLOPs of the forward pass, and one per row looked up."""
    return matmul_flops(cost) + elementwise_flops(cost) + cost.lookups


def weight_bytes(bits: int) -> Measure:
    """Bytes of the stored weights at ``bits`` each; every tensor is padded to whole bytes."""

    @_stored
    def measure(cost: Cost) -> Num:
        return total(bytes_of(weight.size, bits) for weight in cost.weights if weight.tied_to is None)

    return measure


def buffer_bytes(bits: int) -> Measure:
    """Bytes of the buffers: tensors stored with the model that are no parameters."""

    @_stored
    def measure(cost: Cost) -> Num:
        return total(bytes_of(buffer.size, bits) for buffer in cost.buffers)

    return measure


def held_bytes(bits: int) -> Measure:
    """Bytes of weights and buffers at ``bits`` each; buffers are not quantized, and have at least 16 bits."""
    weights, buffers = weight_bytes(bits), buffer_bytes(max(bits, SMALLEST_BUFFER))
    return Measure(lambda cost: weights(cost) + buffers(cost), STORED)


@_stored
def bytes_held(cost: Cost) -> Num:
    """Bytes of the tensors in a tree of memory (``Cost.held``)."""
    return total(bytes_of(held.size, held.bits) for held in cost.held)


def bytes_of(elements: Num, bits: int) -> Num:
    """Return the bytes of ``elements`` numbers of ``bits`` each: ``⌈n·bits / 8⌉``."""
    common = gcd(bits, 8)
    pieces: Num = ceil_div(elements * (bits // common), 8 // common)
    return pieces


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
        (matmul.name, (*([passes + matmul.backward + matmul.overcounted] if training else []), *matmul.factors))
        for matmul in cost.products
    ]
    if everything:
        items += [
            (done.name, (operations, done.elements))
            for done in cost.elementwise
            if (operations := passes * done.forward + done.backward * training)
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


def step_items(cost: Cost) -> list[Item]:
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


NUMBER = r"(^|\.)(expert_)?\d+(?=\.|$)"
LAYERS = re.compile(r"\[[^][]*\]")


def tensors(root: Component, *, buffers: bool = False, unpublished: bool = False) -> dict[str, Num]:
    """Return the elements of each stored tensor, over all layers: ``{"model.layers.mlp.up_proj": …}``.

    It must equal the same map of a checkpoint (see :func:`plain`), name by name; with what is ``unpublished``, that of
    transformers.
    """
    elements: dict[str, Num] = {}
    for node in root.walk():
        own = node.component.own
        for tensor in own.buffers if buffers else (*own.weights, *(own.unpublished if unpublished else ())):
            if tensor.tied_to is None:
                name = _name(node, tensor)
                elements[name] = elements.get(name, 0) + node.copies * tensor.size
    return elements


def _inside(node: Node) -> tuple[str, ...]:
    """Return the modules around it; a group in parentheses, such as ``(ffn)``, is no module of a checkpoint."""
    return tuple(name for name in node.names[1:] if not name.startswith("("))


def shapes(root: Component) -> dict[str, Counter[tuple[int, ...]]]:
    """Return the shapes of the stored tensors by name, counted over the layers; axes are sorted."""
    shapes_by_name: dict[str, Counter[tuple[int, ...]]] = {}
    for node in root.walk():
        for weight in node.component.own.weights:
            if weight.tied_to is None:
                shape = tuple(sorted(map(value_of, weight.shape)))
                shapes_by_name.setdefault(_name(node, weight), Counter())[shape] += value_of(node.copies)
    return shapes_by_name


def tied(root: Component) -> list[str]:
    """Return the names of tensors that share another's storage: a checkpoint may contain a copy of them, or not."""
    return [_name(node, weight) for node in root.walk() for weight in node.component.own.weights if weight.tied_to]


def _name(node: Node, tensor: Weight) -> str:
    return plain(".".join((*_inside(node), *([tensor.key] if tensor.key else []))))


def plain(name: str) -> str:
    """Return a tensor's name without layer numbers and without the suffix ``weight``.

    >>> plain("model.layers.0.mlp.experts.7.up_proj.weight"), plain("layers[3-60].mlp.gate.bias")
    ('model.layers.mlp.experts.up_proj', 'layers.mlp.gate.bias')
    """
    if "[" in name:
        name = LAYERS.sub("", name)
    name = re.sub(NUMBER, "", name).removeprefix(".")
    name = name[: -len(".weight")] if name.endswith((".weight", "_weight")) else name
    return f"{name.removesuffix('_bias')}.bias" if name.endswith("_bias") else name


def of_numbers(tree: Component) -> Component:
    """Return the tree with all numbers as ints."""
    return _mapped(tree, value_of)


def of_formulas(tree: Component) -> Component:
    """Return the tree with all numbers as closed forms."""
    return _mapped(tree, formula_of)


def _mapped(tree: Component, change: Callable[[Num], Num]) -> Component:
    held = tuple(
        item._replace(factors=tuple(change(factor) for factor in item.factors), bits=item.bits)
        for item in tree.own.held
    )
    return tree._replace(
        own=tree.own._replace(held=held),
        parts=tuple(_mapped(part, change) for part in tree.parts),
        copies=change(tree.copies),
        active=None if tree.active is None else change(tree.active),
        passes=change(tree.passes),
    )
