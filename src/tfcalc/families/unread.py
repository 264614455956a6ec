"""What is computed and then read by nothing: it costs the forward pass, and has no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient
from tfcalc.workload import Workload

LAYER, UNREAD = "layer", "unread"


def unread(part: Component) -> Component:
    """The same without a backward pass; such a layer is not computed again either, and so is none to recomputation."""
    return _no_layers(without_gradient(part))


def _no_layers(part: Component) -> Component:
    kind = UNREAD if part.kind == LAYER else part.kind
    return part._replace(kind=kind, parts=tuple(_no_layers(inner) for inner in part.parts))


def unread_heads(tower: Component, run: Workload, kind: str = "pooler") -> Component:
    """A tower whose vectors are read, but not what its head makes of them."""
    if not run.training:
        return tower
    return tower._replace(parts=tuple(unread(part) if part.kind == kind else part for part in tower.parts))


def read_early(tower: Component, run: Workload, late: int) -> Component:
    """A tower whose vectors are taken so many (``late``) layers before its end: in training, these stand apart."""
    if not (run.training and late):
        return tower
    return tower._replace(parts=tuple(new for part in tower.parts for new in _split(part, run, late)))


def _split(part: Component, run: Workload, late: int) -> Iterator[Component]:
    if part.kind != LAYER:
        yield read_early(part, run, late)
        return
    yield part._replace(name=f"{part.name}[read]", copies=part.copies - late)
    yield unread(part)._replace(name=f"{part.name}[unread]", copies=late, under=0)
