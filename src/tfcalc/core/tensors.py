"""Tensors of a tree by their names in a checkpoint, without layer numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from tfcalc.core.component import Component, Node
from tfcalc.core.cost import Tensor
from tfcalc.core.number import Num
from tfcalc.core.traced import formula_of, value_of

NUMBER = re.compile(r"(^|\.)(expert_)?\d+(?=\.|$)")
LAYERS = re.compile(r"\[[^][]*\]")


def tensors(root: Component, *, buffers: bool = False) -> dict[str, Num]:
    """Return the elements of each stored tensor, over all layers: ``{"model.layers.mlp.up_proj": …}``.

    It must equal the same map of a checkpoint (see :func:`plain`), name by name.
    """
    elements: dict[str, Num] = {}
    for node in root.walk():
        own = node.component.own
        for tensor in own.buffers if buffers else own.weights:
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


def _name(node: Node, tensor: Tensor) -> str:
    return plain(".".join((*_inside(node), *([tensor.key] if tensor.key else []))))


def plain(name: str) -> str:
    """Return a tensor's name without layer numbers and without the suffix ``weight``.

    >>> plain("model.layers.0.mlp.experts.7.up_proj.weight"), plain("layers[3-60].mlp.gate.bias")
    ('model.layers.mlp.experts.up_proj', 'layers.mlp.gate.bias')
    """
    if "[" in name:
        name = LAYERS.sub("", name)
    name = NUMBER.sub("", name).removeprefix(".")
    name = name[: -len(".weight")] if name.endswith((".weight", "_weight")) else name
    return f"{name.removesuffix('_bias')}.bias" if name.endswith("_bias") else name


def of_numbers(tree: Component) -> Component:
    """The same tree, with ints."""
    return _mapped(tree, value_of)


def of_formulas(tree: Component) -> Component:
    """The same tree, with closed forms."""
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
