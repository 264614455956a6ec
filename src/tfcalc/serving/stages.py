"""Layers of a decoder that one stage of a pipeline has, or one card beside the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.number import total
from tfcalc.core.recomputation import LAYER
from tfcalc.core.traced import known, value_of
from tfcalc.errors import InvalidModel
from tfcalc.named_tuple import NamedTuple
from tfcalc.placed.layout import check_least
from tfcalc.serving.weights import places_of

if TYPE_CHECKING:
    from tfcalc.core.component import Component
    from tfcalc.placed.served import ServedLayout


def tree_of_stage(tree: Component, at: ServedLayout) -> Component:
    """Return what a stage has: its layers, what runs before them on the first stage, what runs behind on the last.

    A head that is tied to the table has a copy of it, where that is on another stage. Raises InvalidModel for an
    encoder with its decoder, and for a model without layers that cache something.
    """
    if known(at.pp) == 1:
        return tree
    stacks = [node for node in tree.walk() if is_stack(node.component)]
    if len(stacks) != 1 or _reads_source(stacks[0].component):
        raise InvalidModel("a pipeline cuts the one stack of layers of a decoder", "leave --pp out")
    count = value_of(total(part.copies for part in stacks[0].component.parts if part.kind == LAYER))
    check_least("layers", count, value_of(at.pp))
    here = at.stages(count)[value_of(at.stage)]
    return _cut(tree, stacks[0].names[1:], here, _Ends(at.first, at.last))


class _Ends(NamedTuple):
    """Presence of what runs before the layers, and of what runs behind them."""

    first: bool
    last: bool


def layers_of(tree: Component) -> int:
    """Return the number of layers of a decoder. Raises InvalidModel where it has several stacks, or none."""
    stacks = [node.component for node in tree.walk() if is_stack(node.component)]
    if len(stacks) != 1 or _reads_source(stacks[0]):
        raise InvalidModel("layers are counted of the one stack of a decoder", "leave --ngl out")
    return value_of(total(part.copies for part in stacks[0].parts if part.kind == LAYER))


def on_card(tree: Component, number: int) -> tuple[Component, Component]:
    """Return what llama.cpp puts on the card, the last layers and the head as one more, and what it leaves in RAM.

    The table of words is in RAM; a head that is tied to it is copied. Source: llama.cpp, llama_model::load_tensors
    (n_gpu_layers).
    """
    count = layers_of(tree)
    (stack,) = (node for node in tree.walk() if is_stack(node.component))
    first, way = max(count - number, 0), stack.names[1:]
    card = _cut(tree, way, range(first, count), _Ends(first=False, last=number > count))
    return card, _cut(tree, way, range(first), _Ends(first=True, last=number <= count))


def tree_on_card(tree: Component, at: ServedLayout) -> Component:
    """Return what llama.cpp puts on one of several equal cards: a part of the layers, of which the head is one more.

    Source: llama.cpp, llama_model::load_tensors (``splits``, by the free memory of each), with its --split-mode layer.
    """
    count, cards, card = layers_of(tree), value_of(at.pp), value_of(at.stage)
    check_least("layers", count, cards)
    (stack,) = (node for node in tree.walk() if is_stack(node.component))
    first, end = (-(-place * (count + 1) // cards) for place in (card, card + 1))
    return _cut(tree, stack.names[1:], range(first, min(end, count)), _Ends(first=False, last=end > count))


def is_stack(component: Component) -> bool:
    """Return whether its parts are the layers of a stack that caches something."""
    layers = (part for part in component.parts if part.kind == LAYER)
    return any(node.component.own.cached for layer in layers for node in layer.walk())


def _reads_source(stack: Component) -> bool:
    """Return whether its layers cache keys of what an encoder read."""
    cached = (one for node in stack.walk() for one in node.component.own.cached)
    return any(one.tokens is not None and not one.grows and one.name in ("K", "V") for one in cached)


def _cut(tree: Component, way: tuple[str, ...], here: range, at: _Ends) -> Component:
    """Keep of a component that holds the stack, at the end of this ``way``, what the stage has."""
    inside = [part.kind == LAYER if not way else part.name == way[0] for part in tree.parts]
    first, last = inside.index(True), len(inside) - 1 - inside[::-1].index(True)
    parts: list[Component] = []
    for place, (part, holds) in enumerate(zip(tree.parts, inside, strict=True)):
        if not holds:
            if at.first if place < first else at.last and place > last:
                parts.append(part if at.first else _untied(part))
        elif way:
            parts.append(_cut(part, way[1:], here, at))
        else:
            kept = tuple(layer for layer in places_of(part) if layer in here)
            if kept:
                parts.append(part._replace(copies=len(kept), places=kept, under=0))
    return tree._replace(parts=tuple(parts))


def _untied(tree: Component) -> Component:
    """The component with storage of its own for what is tied to another."""
    weights = tuple(weight._replace(tied_to=None) for weight in tree.own.weights)
    return tree._replace(own=tree.own._replace(weights=weights), parts=tuple(map(_untied, tree.parts)))
