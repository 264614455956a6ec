"""Presets as starts, for a number of which nobody says what model it is of."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from tfcalc.analysis.why.given import BYTES_UNIT, PARAMS, WrittenNumber
from tfcalc.analysis.why.search import Start, State
from tfcalc.analysis.why.tensors import Cell
from tfcalc.analysis.why.weights import FORMATS
from tfcalc.catalog import ListedPreset, index

HEADING = "no model was named: looked for among the presets"
NAMED = 3
"""Presets of one size that are named."""
OWN = 0.0
"""What it costs to take the weights in the checkpoint's own number format."""


def starts(given: WrittenNumber, of: str | None) -> list[Start[Cell]]:
    """The sizes of all presets, in the unit of the number; nothing where they have none of it."""
    if of in (None, PARAMS) and given.unit in ("", PARAMS):
        return list(_params())
    return list(_bytes()) if of in (None, "memory") and given.unit == BYTES_UNIT else []


def _sizes() -> Iterator[tuple[int, list[ListedPreset]]]:
    """The presets by their size."""
    found: dict[int, list[ListedPreset]] = {}
    for preset in index().values():
        found.setdefault(preset.total_params, []).append(preset)
    yield from found.items()


def _params() -> Iterator[Start[Cell]]:
    for size, presets in _sizes():
        words = f"parameters of {_names(presets)}"
        yield Start(
            f"of_{presets[0].name}", words, words, State({Cell("all"): size}), f"tfcalc params {presets[0].name}"
        )


def _bytes() -> Iterator[Start[Cell]]:
    for size, presets in _sizes():
        for held in FORMATS:
            own = [preset for preset in presets if preset.dtype == held.name]
            first, *_ = named = own or presets
            words = f"weights of {_names(named)}, {held.words}"
            what = f"{size:,} parameters x {float(held.each):g} bytes"
            state = State({Cell("all"): size}, Fraction(held.each))
            command = f"tfcalc memory {first.name}" + ("" if own else f" {held.flags}")
            cost = OWN if own else held.cost
            yield Start(f"{held.name}_of_{first.name}", what, words, state, command, cost, BYTES_UNIT)


def _names(presets: list[ListedPreset]) -> str:
    """Name the first few of one size."""
    names = [preset.name for preset in presets]
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
