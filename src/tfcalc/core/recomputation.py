"""Gradient checkpointing, as marks in the tree: which operations the backward pass recomputes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tfcalc.core.component import Component
from tfcalc.core.number import Num, ceil_div

ATTENTION, LAYER = "attend", "layer"


def recomputing(root: Component, kind: str, every: int, *, early_stop: bool) -> Component:
    """Return the tree with the operations marked that the backward pass recomputes (``Cost.again``).

    ``selective`` is attention between its projections (Korthikanti et al. 2022, arXiv 2205.05198, section 5); otherwise
    whole layers, or one of ``every`` layers, which then becomes a component of its own. With ``early_stop``
    (torch.utils.checkpoint with ``use_reentrant=False``) a layer is recomputed up to its last saved tensor, so a linear
    map at its end is not. ``selective-op`` is whole layers without attention and without every other product, from the
    first (:mod:`tfcalc.tape.interpreter`).
    """
    if kind == "selective":
        return _marked_where(root, ATTENTION)
    if kind == "selective-op":
        return _without_selected(_each_layer(root, every, early_stop), count())
    return _each_layer(root, every, early_stop) if every else root


def _without_selected(component: Component, products: Iterator[int]) -> Component:
    """Unmark the results that ``selective-op`` saves; a layer's products are counted from its first."""
    if component.kind == LAYER:
        products = count()
    own = component.own
    plain = bool(own.products) and bool(own.weights) and not own.elementwise  # a bias makes another kernel of it
    if component.kind == ATTENTION or (plain and next(products) % 2 == 0):
        own = own._replace(again=False)
    return component._replace(own=own, parts=tuple(_without_selected(part, products) for part in component.parts))


def _marked_where(component: Component, kind: str) -> Component:
    if component.kind == kind:
        return _again(component, early_stop=False)
    return component._replace(parts=tuple(_marked_where(part, kind) for part in component.parts))


def _each_layer(component: Component, every: int, early_stop: bool) -> Component:
    return component._replace(parts=tuple(new for part in component.parts for new in _layers(part, every, early_stop)))


def _layers(part: Component, every: int, early_stop: bool) -> Iterator[Component]:
    if part.kind != LAYER:
        yield _each_layer(part, every, early_stop)
        return
    again = _again(part, early_stop)
    if every == 1:
        yield again
    elif part.passes != 1:  # one layer that is run many times is stored once
        passes = ceil_div(part.passes, every)
        yield again._replace(name=f"{part.name}[recomputed]", passes=passes)
        yield part._replace(
            name=f"{part.name}[not recomputed]", copies=0, active=part.times.active, passes=part.passes - passes
        )
    else:
        copies = _first_of_each(part, every)
        yield again._replace(name=f"{part.name}[recomputed]", copies=copies)
        yield part._replace(name=f"{part.name}[not recomputed]", copies=part.copies - copies)


def _first_of_each(part: Component, every: int) -> Num:
    """Return how many of these layers have a place in their stack that ``every`` divides."""
    if part.places is not None:
        return sum(place % every == 0 for place in part.places)
    copies: Num = ceil_div(part.under + part.copies, every) - ceil_div(part.under, every)
    return copies


def _again(component: Component, early_stop: bool) -> Component:
    own = component.own
    return component._replace(
        own=own._replace(again=not (early_stop and own.last)),
        parts=tuple(_again(part, early_stop) for part in component.parts),
    )


def as_run(component: Component) -> Component:
    """Return the tree without products that only FlopCounterMode counts: in a grouped convolution's weight gradient.

    ``torch.utils.flop_counter.conv_backward_flop`` multiplies all channels with all, whatever the groups.
    """
    products = tuple(product._replace(overcounted=0) for product in component.own.products)
    return component._replace(
        own=component.own._replace(products=products), parts=tuple(as_run(part) for part in component.parts)
    )
