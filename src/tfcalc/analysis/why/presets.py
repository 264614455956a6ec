"""Presets as starts, for a number of which nobody says what model it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from tfcalc.analysis.why.given import BYTES_UNIT, FLOPS, PARAMS, WrittenNumber
from tfcalc.analysis.why.search import Start, State
from tfcalc.analysis.why.tensors import Cell
from tfcalc.analysis.why.weights import FORMATS
from tfcalc.hardware import accelerators
from tfcalc.named_tuple import NamedTuple

HEADING = "no model was named: looked for among the presets"
NAMED = 3
"""Presets of one size that are named."""
OWN = 0.0
"""What it costs to take the weights in the checkpoint's own number format."""


class PresetSize(NamedTuple):
    """A model as it is listed: its parameters, and the number format of its checkpoint."""

    name: str
    params: int
    dtype: str


FORMS = {
    "attention": (4, 4, "4h² + 4h"),
    "ffn": (8, 5, "8h² + 5h"),
    "encoder-layer": (12, 13, "12h² + 13h"),
    "decoder-layer": (16, 19, "16h² + 19h"),
}
"""Parameters of parts of the classic Transformer: the factors of h² and h, and the form."""
WIDTHS = range(64, 20_481, 64)
"""Hidden sizes that models have."""


def of_other_widths(given: WrittenNumber) -> list[Start[Cell]]:
    """Parts of a Transformer of another width, where one has this number exactly.

    >>> from tfcalc.analysis.why.given import read
    >>> [start.words for start in of_other_widths(read("2362368"))]
    ['the attention of a model with h = 768 (4h² + 4h)']
    """
    if given.unit not in ("", PARAMS) or given.scale != 1 or given.value.denominator != 1:
        return []
    return [
        Start(
            f"{part}_of_{h}",
            f"{square} x {h:,}² + {single} x {h:,}",
            f"the {part} of a model with h = {h} ({form})",
            State({Cell(part): square * h * h + single * h}),
            f"tfcalc explain {part} --d-model {h}",
        )
        for part, (square, single, form) in FORMS.items()
        for h in WIDTHS
        if square * h * h + single * h == given.value
    ]


def starts(given: WrittenNumber, of: str | None, listed: Iterable[PresetSize]) -> list[Start[Cell]]:
    """The sizes of all presets, in the unit of the number; nothing where they have none of it."""
    if of in (None, PARAMS) and given.unit in ("", PARAMS):
        return list(_params(listed))
    if of in (None, FLOPS) and given.unit == FLOPS:
        return list(_peaks())
    return list(_bytes(listed)) if of in (None, "memory") and given.unit == BYTES_UNIT else []


OTHER_FORMAT = 0.25
"""What it costs to take a number for the peak of another format than those of 16 bits."""


def _peaks() -> Iterator[Start[Cell]]:
    """The peaks of GPUs by number format, dense and with the sparsity that datasheets print; cards of one peak once."""
    cards: dict[tuple[str, int], list[str]] = {}
    for card in accelerators():
        for form, peak in card.peaks.items():
            cards.setdefault((form, round(peak)), []).append(card.name)
    for (form, peak), names in cards.items():
        first, *others = names
        called = first + (f" and {len(others)} more" if others else "")
        cost = OWN if form in ("bf16", "fp16") else OTHER_FORMAT
        for times, words in ((1, "dense"), (2, "sparse")):
            said = f"FLOPs per second: the {words} peak of {called} in {form}"
            said += f", twice its dense one of {peak / 10**12:g}T, by which an MFU is counted" * (times - 1)
            yield Start(
                f"{words}_{form}_{first}",
                said,
                said,
                State({Cell("all"): times * peak}),
                f"tfcalc gpus {first}",
                cost,
                FLOPS,
            )


def _sizes(listed: Iterable[PresetSize]) -> Iterator[tuple[int, list[PresetSize]]]:
    """The presets by their size."""
    found: dict[int, list[PresetSize]] = {}
    for preset in listed:
        found.setdefault(preset.params, []).append(preset)
    yield from found.items()


def _params(listed: Iterable[PresetSize]) -> Iterator[Start[Cell]]:
    for size, presets in _sizes(listed):
        words = f"parameters of {_names(presets)}"
        yield Start(
            f"of_{presets[0].name}", words, words, State({Cell("all"): size}), f"tfcalc params {presets[0].name}"
        )


def _bytes(listed: Iterable[PresetSize]) -> Iterator[Start[Cell]]:
    for size, presets in _sizes(listed):
        for held in FORMATS:
            own = [preset for preset in presets if preset.dtype == held.name]
            first, *_ = named = own or presets
            words = f"weights of {_names(named)}, {held.words}"
            what = f"{size:,} parameters x {float(held.each):g} bytes"
            state = State({Cell("all"): size}, Fraction(held.each))
            command = f"tfcalc memory {first.name}" + ("" if own else f" {held.flags}")
            cost = OWN if own else held.cost
            yield Start(f"{held.name}_of_{first.name}", what, words, state, command, cost, BYTES_UNIT)


def _names(presets: list[PresetSize]) -> str:
    """Name the first few of one size."""
    names = [preset.name for preset in presets]
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
