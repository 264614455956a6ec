"""Parts that no gradient reaches, so that backward does nothing for them."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.number import Num


def without_gradient(component: Component) -> Component:
    """The same component, whose operations cost nothing in backward (torch.no_grad, or a choice that has no gradient).

    >>> from tfcalc.core.cost import Cost, Product
    >>> scores = Component("scores", "attend", Cost(products=(Product("Q Kᵀ", (2, 3)),)))
    >>> without_gradient(scores).own.products
    (Product(name='Q Kᵀ', factors=(2, 3), backward=0, overcounted=0),)
    """
    return reached(component, 0)


def reached(component: Component, gradient: Num) -> Component:
    """The same component, which backward runs only where its results are used: ``gradient`` is 1 or 0."""
    own = component.own
    return component._replace(
        own=own._replace(
            products=tuple(
                item._replace(backward=gradient * item.backward, overcounted=gradient * item.overcounted)
                for item in own.products
            ),
            elementwise=tuple(item._replace(backward=gradient * item.backward) for item in own.elementwise),
        ),
        parts=tuple(reached(part, gradient) for part in component.parts),
    )
