"""Gradient checkpointing, as marks in the tree: which operations the backward pass recomputes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tfcalc.core.component import (
    CORE_ATTENTION,
    MLP,
    MODULES,
    MOE,
    MOE_ACTIVATION,
    NORMS,
    SHARED_EXPERTS,
    UP_PROJECTION,
    Component,
)
from tfcalc.core.number import Num, ceil_div
from tfcalc.errors import InvalidModel

ATTENTION, LAYER = "attend", "layer"
MIXER, LINEAR, FEED_FORWARD, MIXTURE = "attention", "linear", "ffn", "moe"
EXPERTS, ACTIVATION, NORM = "experts", "activation", "norm"


def recomputing(
    root: Component, kind: str, every: int, *, early_stop: bool, modules: tuple[str, ...] = ()
) -> Component:
    """Return the tree with the operations marked that the backward pass recomputes (``Cost.again``).

    ``selective`` is attention between its projections (Korthikanti et al. 2022, arXiv 2205.05198, section 5), or the
    ``modules`` of ``MODULES`` that are named (Megatron-core); otherwise
    whole layers, or one of ``every`` layers, which then becomes a component of its own. With ``early_stop``
    (torch.utils.checkpoint with ``use_reentrant=False``) a layer is recomputed up to its last saved tensor, so a linear
    map at its end is not. ``selective-op`` is whole layers without attention and without every other product, from the
    first (:mod:`tfcalc.tape.interpreter`).
    """
    if modules:
        return _marked_modules(root, frozenset(modules), ())
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


def modules_of(part: Component, above: tuple[Component, ...]) -> frozenset[str]:
    """Return the modules of ``MODULES`` in which a component is; ``above`` are those that contain it, the layer first.

    Norms are none of them: which of them are operations of their own depends on the program.
    """
    around = (*above, part)
    kinds = {each.kind for each in around}
    found = {CORE_ATTENTION} if part.kind == ATTENTION else set()
    sparse = any(node.component.kind == MIXTURE for node in around[0].walk())
    if MIXTURE in kinds or (sparse and FEED_FORWARD in kinds):
        found.add(MOE)
        found |= {SHARED_EXPERTS} if FEED_FORWARD in kinds else set()
        found |= {MOE_ACTIVATION} if part.kind == ACTIVATION and EXPERTS in kinds else set()
    elif FEED_FORWARD in kinds:
        found.add(MLP)
    mixer = next((each for each in above if each.kind == MIXER), None)
    if mixer is not None and (part.name in up_projections(mixer) or (part.kind == "rotary" and is_latent(mixer))):
        found.add(UP_PROJECTION)
    return frozenset(found)


def up_projections(mixer: Component) -> tuple[str, ...]:
    """Return the names of latent attention's maps up to heads; of queries that have no latent vector, their map.

    These are the maps, but for the last, that do not read the hidden vectors. Other attention has none.
    """
    maps = [(each.name, each.own.products[0]) for each in mixer.parts if each.kind == LINEAR and each.own.products]
    if not maps:
        return ()
    width = maps[-1][1].columns
    up = [name for name, product in maps[:-1] if product.inner != width]
    return (maps[0][0], *up) if len(up) == 1 else tuple(up)


def down_projections(mixer: Component) -> tuple[str, ...]:
    """Return the names of latent attention's maps down to latent vectors. Other attention has none."""
    up = up_projections(mixer)
    maps = [part.name for part in mixer.parts if part.kind == LINEAR]
    return tuple(name for name in maps[:-1] if name not in up) if up else ()


def is_latent(mixer: Component) -> bool:
    """Return whether keys and values of an attention are made of latent vectors."""
    return bool(up_projections(mixer))


def modules_in(root: Component) -> frozenset[str]:
    """Return the modules that the layers of a tree have."""

    def inside(component: Component, above: tuple[Component, ...]) -> Iterator[str]:
        around = (*above, component) if above or component.kind == LAYER else ()
        if above:
            yield from modules_of(component, above)
        elif around and _norms_apart(component):
            yield NORMS
        for part in component.parts:
            yield from inside(part, around)

    return frozenset(inside(root, ()))


def check_modules(modules: tuple[str, ...], known: frozenset[str], summary: str) -> None:
    """Raise InvalidModel for a module that no layer has, which has those that are ``known``."""
    for name in modules:
        if name not in known:
            in_products = "its norms are in the products that follow (Transformer Engine)"
            why = in_products if name == NORMS else f"no layer has {MODULES[name]}"
            has = ", ".join(each for each in MODULES if each in known)
            hint = f"it has {has}" if has else "leave it out"
            raise InvalidModel(f"--recompute-modules {name} has no effect on {summary}: {why}", hint)


def _norms_apart(layer: Component) -> set[str]:
    """Return the names of a layer's norms that Transformer Engine has by themselves.

    Those are before latent attention and before a mixture; others are in the product that follows.
    """
    norms = [part.name for part in layer.parts if part.kind == NORM]
    networks = [part for part in layer.parts if part.kind in (MIXER, FEED_FORWARD, MIXTURE)]
    if len(norms) != len(networks):
        return set()
    return {name for name, part in zip(norms, networks, strict=True) if part.kind == MIXTURE or is_latent(part)}


def _marked_modules(component: Component, modules: frozenset[str], above: tuple[Component, ...]) -> Component:
    around = (*above, component) if above or component.kind == LAYER else ()
    again = bool(above and modules & modules_of(component, above)) or (
        len(above) == 1 and NORMS in modules and component.name in _norms_apart(above[0])
    )
    own = component.own._replace(again=True) if again else component.own
    return component._replace(own=own, parts=tuple(_marked_modules(part, modules, around) for part in component.parts))


def as_run(component: Component) -> Component:
    """Return the tree without products that only FlopCounterMode counts: in a grouped convolution's weight gradient.

    ``torch.utils.flop_counter.conv_backward_flop`` multiplies all channels with all, whatever the groups.
    """
    products = tuple(product._replace(overcounted=0) for product in component.own.products)
    return component._replace(
        own=component.own._replace(products=products), parts=tuple(as_run(part) for part in component.parts)
    )
