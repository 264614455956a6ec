"""Adapters beside linear maps: LoRA as peft runs it."""

from __future__ import annotations

from tfcalc.core.component import Component

MAPS = (".lora_A", ".lora_B")


def adapters(tree: Component) -> dict[int, tuple[Component, Component]]:
    """Of each linear map that has an adapter (by its identity in the tree): the two maps of it."""
    found: dict[int, tuple[Component, Component]] = {}
    for node in tree.walk():
        parts = {part.name: part for part in node.component.parts}
        for part in node.component.parts:
            beside = [parts.get(part.name + name) for name in MAPS]
            if beside[0] is not None and beside[1] is not None:
                found[id(part)] = beside[0], beside[1]
    return found
