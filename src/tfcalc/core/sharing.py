"""Operations whose weights are counted elsewhere."""

from __future__ import annotations

from tfcalc.core.component import Component


def without_weights(component: Component) -> Component:
    """The same operations, for weights that are stored with another component."""
    parts = tuple(without_weights(part) for part in component.parts)
    return component._replace(own=component.own._replace(weights=(), buffers=()), parts=parts)
