"""What is computed and then read by nothing: it costs the forward pass, and has no gradient."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.gradient import without_gradient

LAYER, UNREAD = "layer", "unread"


def unread(part: Component) -> Component:
    """The same without a backward pass; such a layer is not computed again either, and so is none to recomputation."""
    return _no_layers(without_gradient(part))


def _no_layers(part: Component) -> Component:
    kind = UNREAD if part.kind == LAYER else part.kind
    return part._replace(kind=kind, parts=tuple(_no_layers(inner) for inner in part.parts))
