"""Units that FSDP gathers: each layer, and one for everything outside of layers; packed weights stay packed.

Source: transformers wraps each layer (``TRANSFORMER_BASED_WRAP`` of accelerate's FSDP plugin), and the model around
them, as torchtune does; torch.distributed.fsdp.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component, Cost, Held
from tfcalc.core.measure import LAYERS, bytes_held
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import value_of
from tfcalc.number_formats import FP32, UINT8
from tfcalc.serving.weight_formats import Format
from tfcalc.serving.weights import weights
from tfcalc.tape.sharded import Unit, Units
from tfcalc.training.adapters import thawed
from tfcalc.training.precisions import Precision
from tfcalc.training.sharding import (
    LAYER,
    Placement,
    pieces,
    stored_numbers,
    trained_numbers,
    without_layers,
)


def units_of(
    tree: Component, precision: Precision, placement: Placement, base: Format | None, *, accumulates: bool
) -> Units:
    """The units of a model's tree, by the paths of its layers; frozen weights of the format ``base`` stay packed."""

    def unit(part: Component) -> Unit:
        cut = pieces(part, placement)
        trained = cut.total(trained_numbers)
        if base is None:
            gathered = (placement.devices * cut.total(stored_numbers), precision.gathered)
        else:
            kept = packed_pieces(part, precision, placement, base)
            gathered = (placement.devices * kept.total(bytes_held), UINT8.torch)
        return Unit((gathered,), placement.devices * trained, trained)

    inner = {
        f"{LAYERS.sub('', path)}.{place}": made
        for path, layer in _layers(tree, tree.name)
        for made in [unit(layer._replace(copies=1))]
        for place in layer.places or range(value_of(layer.copies))
    }
    copies, offloads = placement.layout == "fsdp2", placement.offload == "all"
    root = unit(without_layers(tree))
    return Units(inner, root, precision.gathered, precision.reduced, copies, accumulates, offloads)


def packed_pieces(tree: Component, precision: Precision, placement: Placement, base: Format) -> Component:
    """One device's weights of which the frozen matrices are quantized: the packed numbers are shared, scales are not.

    Source: Answer.AI's FSDP + QLoRA; bitsandbytes.nn.Linear4bit, whose ``quant_state`` is an attribute of the module
    (``fix_4bit_weight_quant_state_from_module``), and no parameter that FSDP would see.
    """
    dtype = FP32.name if precision.weights == FP32.bits else precision.compute
    beside = tuple(f" {piece.name}" for piece in base.pieces if piece.name)

    def cut(part: Component) -> Component:
        held = tuple(each if each.name.endswith(beside) else _piece(each, placement.devices) for each in part.own.held)
        return part._replace(own=Cost(held=held), parts=tuple(cut(inside) for inside in part.parts))

    return cut(weights(thawed(tree), base, dtype=dtype))


def offloaded(pieces: Component, base: Format) -> tuple[Component, Component]:
    """Return what stays on the device of packed weights, their scales, and what is in the host's memory: parameters.

    Source: ``quant_state`` is an attribute of the module, and moves with the module alone.
    """
    beside = tuple(f" {piece.name}" for piece in base.pieces if piece.name)

    def only(part: Component, *, scales: bool) -> Component:
        held = tuple(each for each in part.own.held if each.name.endswith(beside) == scales)
        parts = tuple(only(inside, scales=scales) for inside in part.parts)
        return part._replace(own=Cost(held=held), parts=tuple(one for one in parts if one.own.held or one.parts))

    return only(pieces, scales=True), only(pieces, scales=False)


def _piece(held: Held, devices: Num) -> Held:
    return held._replace(factors=(ceil_div(held.size, devices),))


def _layers(tree: Component, path: str) -> Iterator[tuple[str, Component]]:
    """The outermost layers, each with its path."""
    for part in tree.parts:
        inside = f"{path}.{part.name}"
        if part.kind == LAYER:
            yield inside, part
        else:
            yield from _layers(part, inside)
