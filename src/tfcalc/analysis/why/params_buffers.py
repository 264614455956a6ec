"""Buffers that older checkpoints hold, and that count as parameters where tensors of a file are summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.why.params_steps import add
from tfcalc.analysis.why.step import Step
from tfcalc.analysis.why.tensors import BUFFER, Cell
from tfcalc.core.traced import value_of
from tfcalc.errors import TfcalcError
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.analysis.facts import Facts
    from tfcalc.core.component import Component
    from tfcalc.model import Model

LONGEST = 4096
"""Longer masks were never stored."""
IDS, MASKS = 1.5, 1.25


def steps(model: Model, tree: Component, known: Facts) -> Iterator[Step[Cell]]:
    """The numbers of the positions, of a learned table; and the causal mask of each layer, of a decoder."""
    tables = [node.component.own.weights for node in tree.walk() if node.component.kind == "position"]
    places = [value_of(w.shape[0]) for weights in tables for w in weights if _is_table(w.shape, known.context)]
    if places:
        words = f"with the buffer of position ids, {' + '.join(f'{one:,}' for one in places)} whole numbers"
        yield Step("position_ids", words, IDS, add({Cell(BUFFER): sum(places)}), "buffers")
    length, layers = known.context, known.layers
    if length and layers and length <= LONGEST and not known.encoder_layers and _generates(model):
        words = f"with the causal mask of {length:,} x {length:,} that each layer stored as a buffer"
        yield Step("masks", words, MASKS, add({Cell(BUFFER, layer=True): layers * length * length}), "buffers")


def _is_table(shape: tuple[object, ...], context: int | None) -> bool:
    return len(shape) == 2 and context is not None and value_of(shape[0]) >= context


def _generates(model: Model) -> bool:
    try:
        model.check(Workload(phase="decode"))
    except TfcalcError:
        return False
    return True
