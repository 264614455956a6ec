"""Sharding: the piece of each tensor that a device has, by ZeRO's flat buffers or PyTorch's FSDP.

Stored tensors of a tree, one by one, and trees of what training allocates for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import prod

from tfcalc.core.component import STORED, TABLES, Component, Cost, Held, Measure, Weight
from tfcalc.core.measure import plain
from tfcalc.core.number import Num, ceil_div, product, total
from tfcalc.core.traced import value_of
from tfcalc.errors import InvalidModel, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted

OUTER = (*TABLES, "output")
"""Kinds whose matrices are no hidden ones: tables, and the output head."""


class StoredWeight(NamedTuple):
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
    def sized(self) -> StoredWeight:
        """Copy with the shape in numbers."""
        return self._replace(shape=self.numbers)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(product(self.numbers))  # type: ignore[call-overload, no-any-return]


PerWeight = Callable[[StoredWeight], tuple[Held, ...]]
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


def in_order(tree: Component, sized: Component | None = None) -> tuple[StoredWeight, ...]:
    """The trained tensors as an optimizer goes through them; of copies that follow each other the first two."""
    numbers = tree if sized is None else sized
    own = tuple(weight for weight in _weights(tree, numbers) if not weight.frozen)
    inside = tuple(
        weight for part, twin in zip(tree.parts, numbers.parts, strict=True) for weight in in_order(part, twin)
    )
    return (own + inside) * (1 if numbers.copies == 1 else 2)


def as_stored(path: str, shape: tuple[Num, ...], outer: Collection[str]) -> StoredWeight:
    """The tensor of a parameter that goes by this path; those of ``outer`` modules are not hidden."""
    module, _, name = path.rpartition(".")
    return StoredWeight(name, shape, tuple(map(value_of, shape)), plain(module) not in outer, frozen=False)


def outer_modules(tree: Component) -> frozenset[str]:
    """The tables and the output head by their paths, without numbers of layers."""
    return frozenset(plain(node.path) for node in tree.walk() if node.component.kind in OUTER)


def tensor_count(tree: Component, *, trained: bool = True) -> Num:
    """Number of stored tensors, each layer's and each expert's by itself; only those that are ``trained``, or all.

    Source: each is a torch.nn.Parameter; a tied one is the same object twice, and counts once.
    """
    own = sum(not (trained and weight.frozen) for weight in _weights(tree, tree))
    return tree.copies * (own + total(tensor_count(part, trained=trained) for part in tree.parts))


def largest_tensor(tree: Component, sized: Component | None = None) -> StoredWeight:
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


def _joined(parts: list[Component]) -> Iterator[Weight]:
    """Yield each tensor of the first part with those of the others behind it, along the last axis."""
    for tensors in zip(*(part.own.weights for part in parts), strict=True):
        first = tensors[0]
        name = f"{first.name.partition('_')[0]}_QKV"
        yield first._replace(name=name, shape=(*first.shape[:-1], total(tensor.shape[-1] for tensor in tensors)))


def _weights(tree: Component, sized: Component) -> Iterator[StoredWeight]:
    hidden, looked_up = tree.kind not in OUTER, tree.kind in TABLES
    for tensor, twin in zip(tree.own.weights, sized.own.weights, strict=True):
        if tensor.tied_to is None:
            yield StoredWeight(tensor.name, _as_torch(tensor), _as_torch(twin), hidden, tensor.frozen, looked_up)


def _as_torch(tensor: Weight) -> tuple[Num, ...]:
    """A linear map's W is fan_in × fan_out where the mathematics writes x W, and the other way round in torch."""
    return tensor.shape[::-1] if tensor.turned else tensor.shape


STAGES = (0, 1, 2, 3)
FSDP1 = "fsdp1"
LAYOUTS = ("flat", "zero", FSDP1, "fsdp2")
"""Ways to cut tensors into pieces, padded to equal sizes.

``flat``: all as one buffer (ZeRO's paper; Megatron-LM's distributed optimizer).
``zero``: DeepSpeed. Stages 1 and 2 one buffer, filled up to a multiple of 2·N
(``DeepSpeedZeroOptimizer.nccl_start_alignment_factor``); stage 3 each tensor by itself (``Init._partition_param``).
``fsdp1``: each layer as one buffer, and what is in no layer as another (``FlatParamHandle``).
``fsdp2``: each tensor along its first axis (``FSDPParam._init_sharded_param``: ``chunk(N, dim=0)``, padded).
"""
OFFLOADS = ("none", "optimizer", "all")
LAYER = "layer"


class Placement(NamedTuple):
    """States over ``devices``, by ZeRO's ``stage``: 0 none, 1 optimizer and master, 2 gradients too, 3 weights too.

    ``offload`` puts the optimizer's part with the gradients, or the weights too, into the host's memory (ZeRO-Offload,
    arXiv 2101.06840, section 4.1).
    """

    stage: int = 0
    devices: Num = 1
    layout: str = "flat"
    offload: str = "none"

    @property
    def by_units(self) -> bool:
        """Return whether PyTorch gathers weights layer by layer, and scatters their gradients (FSDP)."""
        return self.stage == 3 and self.layout.startswith("fsdp")

    def check(self) -> None:
        """Raise InvalidModel for a stage, layout or offload that there is not."""
        if self.stage not in STAGES:
            raise InvalidModel(f"ZeRO stage {self.stage}", "use 0, 1, 2 or 3")
        if isinstance(self.devices, int) and self.devices < 1:
            raise InvalidModel(f"{self.devices} devices", "give 1 or more")
        for what, word, known in (("layout", self.layout, LAYOUTS), ("offload", self.offload, OFFLOADS)):
            if word not in known:
                raise InvalidModel(f"{what} {quoted(word)} is not known", nearest(word, known))
        if self.offload == "all" and self.stage < 3:
            raise InvalidModel(
                f"offload 'all' with ZeRO stage {self.stage}",
                "weights are offloaded in stage 3: --zero 3, or --offload optimizer",
            )


def pieces(tree: Component, placement: Placement) -> Component:
    """A tree of the tensors that one device has: those of the model, cut, or buffers that hold many of them.

    ====================  =====================================================================
    flat                  ``⌈P / N⌉`` in all; ``zero`` in stages 1 and 2 ``2·⌈P / 2N⌉``
    zero, stage 3         ``⌈p / N⌉`` of each tensor
    fsdp1                 ``⌈P_layer / N⌉`` of each layer, and of the rest
    fsdp2                 ``⌈first axis / N⌉ · others`` of each tensor
    ====================  =====================================================================

    Trained and frozen tensors are in buffers of their own. An optimizer sees the pieces, so that a factored one finds
    no matrices in a flat buffer. Source: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), section 5; the functions
    named at :data:`LAYOUTS`.
    """
    placement.check()
    devices = placement.devices
    if placement.layout == "fsdp2":
        return _cut(tree, devices, by_rows=True)
    if placement.layout == FSDP1:
        layers = (
            _flattened(layer._replace(copies=1), devices)._replace(copies=copies) for layer, copies in _units(tree)
        )
        rest = _flattened(without_layers(tree), devices)._replace(name="rest")
        return Component(tree.name, tree.kind, parts=(*layers, rest))
    if placement.layout == "zero" and placement.stage == 3:
        return _cut(tree, devices, by_rows=False)
    return _flattened(tree, devices, 2 if placement.layout == "zero" else 1)


def fewest(tree: Component, placement: Placement) -> Num:
    """Return the numbers that the last device has of stage 3's pieces, without what fills them up.

    Source: torch.chunk, by which ``FSDPParam._init_sharded_param`` cuts: full pieces first, the last ones smaller or
    empty. DeepSpeed's and flat buffers are filled up instead.
    """
    if placement.layout != "fsdp2":
        return pieces(tree, placement).total(stored_numbers)
    devices, found = value_of(placement.devices), 0
    for node in tree.walk():
        for weight in node.component.own.weights:
            if weight.tied_to is None:
                rows, *others = map(value_of, _as_torch(weight) or (1,))
                left = max(0, rows - (devices - 1) * ceil_div(rows, devices))
                found += value_of(node.copies) * left * prod(others)
    return found


def units(tree: Component, placement: Placement) -> Iterator[tuple[str, Num, Num]]:
    """Units that stage 3 gathers at once: name, number of elements, and how many of these are trained.

    A layer, or what is in no layer (FSDP); in DeepSpeed a module with weights of its own ("largest_layer_params").
    """
    if placement.layout == "zero":
        for node in tree.walk():
            own = node.component.own
            if own.weights:
                yield node.path, stored_numbers.of(own), trained_numbers.of(own)
        return
    for layer, _ in _units(tree):
        yield layer.name, layer.each(stored_numbers), layer.each(trained_numbers)
    rest = without_layers(tree)
    yield "rest", rest.total(stored_numbers), rest.total(trained_numbers)


def _numbers(*, frozen: bool | None) -> Measure:
    """Numbers of stored tensors: all (None), those that are frozen, or those that are trained."""

    def of(cost: Cost) -> Num:
        return total(
            weight.size for weight in cost.weights if weight.tied_to is None and frozen in (None, weight.frozen)
        )

    return Measure(of, STORED)


stored_numbers = _numbers(frozen=None)
trained_numbers = _numbers(frozen=False)


def _flattened(tree: Component, devices: Num, alignment: int = 1) -> Component:
    """One buffer of what is trained, and one of what is frozen, if anything is."""
    found = {name: list(_with(tree, frozen)) for name, frozen in (("flat", False), ("flat_frozen", True))}
    return Component(
        tree.name,
        tree.kind,
        Cost(
            weights=tuple(
                Weight(name, (alignment * ceil_div(total(sizes), alignment * devices),), frozen=name != "flat")
                for name, sizes in found.items()
                if sizes
            )
        ),
    )


def _with(tree: Component, frozen: bool) -> Iterator[Num]:
    """Sizes of the stored tensors, over all their copies."""
    for node in tree.walk():
        for weight in node.component.own.weights:
            if weight.tied_to is None and weight.frozen == frozen:
                yield node.copies * weight.size


def _cut(tree: Component, devices: Num, *, by_rows: bool) -> Component:
    """Divide each tensor by itself among the devices."""
    weights = tuple(
        weight._replace(shape=_rows(weight, devices) if by_rows else (ceil_div(weight.size, devices),))
        for weight in tree.own.weights
    )
    return tree._replace(
        own=tree.own._replace(weights=weights), parts=tuple(_cut(part, devices, by_rows=by_rows) for part in tree.parts)
    )


def _rows(weight: Weight, devices: Num) -> tuple[Num, ...]:
    """The first axis cut, as torch stores the tensor (:mod:`tfcalc.training.sharding`); a number has none."""
    if not weight.shape:
        return ()
    if weight.turned:
        return (*weight.shape[:-1], ceil_div(weight.shape[-1], devices))
    return (ceil_div(weight.shape[0], devices), *weight.shape[1:])


def _units(component: Component, times: Num = 1) -> Iterator[tuple[Component, Num]]:
    """Outermost layers, each with its number of copies."""
    for part in component.parts:
        if part.kind == LAYER:
            yield part, times * part.copies
        else:
            yield from _units(part, times * part.copies)


def without_layers(component: Component) -> Component:
    """Return the tree without its layers."""
    parts = tuple(without_layers(part) for part in component.parts if part.kind != LAYER)
    return component._replace(parts=parts)
