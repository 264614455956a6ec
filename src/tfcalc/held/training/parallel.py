"""Which piece of a model stands on one device of Megatron-LM: a share of each matrix, and the layers of one stage."""

from __future__ import annotations

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Tensor
from tfcalc.core.number import Num, ceil_div, divide
from tfcalc.core.traced import value_of
from tfcalc.held.training.megatron_sizes import Placement

BY_ROWS = ("W_O", "W_2")
"""Maps whose input is shared out; their biases stand on every device. Those of the other maps are shared like them."""
TABLES = ("embedding", "output")
LAYER = "layer"


def on_device(tree: Component, at: Placement) -> Component:
    """The same tree with the weights that one device has.

    ====================  =====================================================================
    Q, K, V, gate, input  ``i × o/t``, their biases ``o/t``
    output, second map    ``i/t × o``, their biases whole
    words, head           ``V/t × h``, filled up
    norms, positions      whole
    layers                ``n/p`` of them; words on the first stage, final norm and head on the last
    ====================  =====================================================================

    Source: Shoeybi et al. 2019 (Megatron-LM, arXiv 1909.08053), section 3; Narayanan et al. 2021 (arXiv 2104.04473),
    section 2.
    """
    return tree._replace(parts=tuple(_part(part, at, above=True) for part in _of_stage(tree.parts, at)))


def _of_stage(parts: tuple[Component, ...], at: Placement) -> tuple[Component, ...]:
    """What stands outside the layers: before them on the first stage, behind them on the last."""
    place = next((place for place, part in enumerate(parts) if _has_layers(part)), None)
    if place is None:
        return parts
    before = parts[:place] if at.first else ()
    behind = parts[place + 1 :] if at.last else ()
    return (*before, parts[place], *behind)


def _has_layers(part: Component) -> bool:
    return any(node.component.kind == LAYER for node in part.walk())


def _part(part: Component, at: Placement, *, above: bool) -> Component:
    inside = part.parts if not above or part.kind == LAYER else _of_stage(part.parts, at)
    copies: Num = divide(part.copies, at.pipeline) if part.kind == LAYER else part.copies
    return part._replace(
        own=_shared(part, at),
        parts=tuple(_part(each, at, above=above and part.kind != LAYER) for each in inside),
        copies=copies,
    )


def _shared(part: Component, at: Placement) -> Cost:
    weights = part.own.weights
    if not weights:
        return part.own
    if part.kind in TABLES:
        return part.own._replace(weights=tuple(_cut(each, _vocabulary(part, each), at) for each in weights))
    if not weights[0].turned:
        return part.own
    by_rows = weights[0].name in BY_ROWS
    cut = (_cut(each, 0 if by_rows else -1, at) if len(each.shape) > 1 or not by_rows else each for each in weights)
    return part.own._replace(weights=tuple(cut))


def _vocabulary(part: Component, tensor: Tensor) -> int:
    """The axis of the vocabulary: the first of a table, the last of a head."""
    return -1 if part.kind == "output" or len(tensor.shape) == 1 else 0


def _cut(tensor: Tensor, axis: int, at: Placement) -> Tensor:
    shape = list(tensor.shape)
    even = value_of(shape[axis]) % value_of(at.tensor) == 0
    shape[axis] = divide(shape[axis], at.tensor) if even else ceil_div(shape[axis], at.tensor)
    return tensor._replace(shape=tuple(shape))
