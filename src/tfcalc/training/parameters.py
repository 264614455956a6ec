"""Stored tensors of a tree, one by one, and trees of what training allocates for each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tfcalc.core.component import Component, Cost, Held, Tensor
from tfcalc.core.measure import plain
from tfcalc.core.number import Num, product, total
from tfcalc.core.traced import value_of

TABLES = ("embedding", "position")
OUTER = (*TABLES, "output")
"""Kinds whose matrices are no hidden ones: tables, and the output head."""


class Weight(NamedTuple):
    """A stored tensor: its ``shape`` as PyTorch has it, and the ``numbers`` of the shape, which tell what is larger.

    They differ only where the shape is of symbols. ``hidden`` are the tensors inside the model, which neither look
    tokens up nor make the output; ``looked_up`` the tables.
    """

    name: str
    shape: tuple[Num, ...]
    numbers: tuple[Num, ...]
    hidden: bool
    frozen: bool
    looked_up: bool = False

    @property
    def sized(self) -> Weight:
        """Copy with the shape in numbers."""
        return self._replace(shape=self.numbers)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(product(self.numbers))  # type: ignore[call-overload, no-any-return]


PerWeight = Callable[[Weight], tuple[Held, ...]]
"""Tensors that are allocated for one stored tensor."""


def held(tree: Component, beside: PerWeight, sized: Component | None = None) -> Component:
    """Tree of the tensors that are allocated for each stored tensor, a tied one once; empty parts are left out.

    Where the tree is one of symbols, ``sized`` is the same of numbers. Passes and active copies are left out too: what
    is run many times is stored once.
    """
    numbers = tree if sized is None else sized
    items = tuple(item for weight in _weights(tree, numbers) for item in beside(weight))
    parts = (held(part, beside, twin) for part, twin in zip(tree.parts, numbers.parts, strict=True))
    return Component(
        tree.name,
        tree.kind,
        Cost(held=items),
        tuple(part for part in parts if part.own.held or part.parts),
        copies=tree.copies,
        places=tree.places,
        under=tree.under,
    )


def in_order(tree: Component, sized: Component | None = None) -> tuple[Weight, ...]:
    """The trained tensors as an optimizer goes through them; of copies that follow each other the first two."""
    numbers = tree if sized is None else sized
    own = tuple(weight for weight in _weights(tree, numbers) if not weight.frozen)
    inside = tuple(
        weight for part, twin in zip(tree.parts, numbers.parts, strict=True) for weight in in_order(part, twin)
    )
    return (own + inside) * (1 if numbers.copies == 1 else 2)


def as_stored(path: str, shape: tuple[Num, ...], outer: Collection[str]) -> Weight:
    """The tensor of a parameter that goes by this path; those of ``outer`` modules are not hidden."""
    module, _, name = path.rpartition(".")
    return Weight(name, shape, tuple(map(value_of, shape)), plain(module) not in outer, frozen=False)


def outer_modules(tree: Component) -> frozenset[str]:
    """The tables and the output head by their paths, without numbers of layers."""
    return frozenset(plain(node.path) for node in tree.walk() if node.component.kind in OUTER)


def tensor_count(tree: Component, *, trained: bool = True) -> Num:
    """Number of stored tensors, each layer's and each expert's by itself; only those that are ``trained``, or all.

    Source: each is a torch.nn.Parameter; a tied one is the same object twice, and counts once.
    """
    own = sum(not (trained and weight.frozen) for weight in _weights(tree, tree))
    return tree.copies * (own + total(tensor_count(part, trained=trained) for part in tree.parts))


def largest_tensor(tree: Component, sized: Component | None = None) -> Weight:
    """The largest tensor that is trained."""
    return max(in_order(tree, sized), key=lambda weight: weight.size)


def packed(tree: Component) -> Component:
    """Return the tree with query, key and value joined into one weight and one bias: ``in_proj``.

    Source: torch.nn.MultiheadAttention stores ``in_proj_weight`` (3h × h) and ``in_proj_bias`` where all three read
    vectors of one width.
    """
    parts = [packed(part) for part in tree.parts]
    three = [part for part in parts if part.name in ("query", "key", "value") and part.own.weights]
    if len(three) == 3 and len({str(part.own.weights[0].shape[0]) for part in three}) == 1:
        joined = three[0]._replace(name="in_proj", own=three[0].own._replace(weights=tuple(_joined(three))))
        empty = [part._replace(own=part.own._replace(weights=())) for part in three]
        parts = [joined, *empty[1:], *(part for part in parts if part not in three)]
    return tree._replace(parts=tuple(parts))


def _joined(parts: list[Component]) -> Iterator[Tensor]:
    """Each tensor of the first with those of the others behind it, along the last axis."""
    for tensors in zip(*(part.own.weights for part in parts), strict=True):
        first = tensors[0]
        name = f"{first.name.partition('_')[0]}_QKV"
        yield first._replace(name=name, shape=(*first.shape[:-1], total(tensor.shape[-1] for tensor in tensors)))


def _weights(tree: Component, sized: Component) -> Iterator[Weight]:
    hidden, looked_up = tree.kind not in OUTER, tree.kind in TABLES
    for tensor, twin in zip(tree.own.weights, sized.own.weights, strict=True):
        if tensor.tied_to is None:
            yield Weight(tensor.name, _as_torch(tensor), _as_torch(twin), hidden, tensor.frozen, looked_up)


def _as_torch(tensor: Tensor) -> tuple[Num, ...]:
    """A linear map's W is fan_in × fan_out where the mathematics writes x W, and the other way round in torch."""
    return tensor.shape[::-1] if tensor.turned else tensor.shape
