"""A file type of llama-quantize, as a format that looks at which matrix it is asked for."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.errors import InvalidModel
from tfcalc.footprint.formats.formats import TABLES, Format
from tfcalc.footprint.formats.gguf_files import LOWEST, Facts, type_of
from tfcalc.footprint.formats.gguf_types import fitting

BY_LAYER = (*LOWEST, "q2_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "q5_k_m", "iq3_xs", "iq3_m", "iq4_nl", "iq4_xs")
"""File types that give the first layers, or every third, another block type."""


BY_NAME = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_k", "tq1_0", "tq2_0")
"""File types that ask nothing of a model's sizes, but whether it has 8 experts."""


class Mixture(NamedTuple):
    """Which block type each matrix is stored as: ``q4_k_m``.

    Source: llama.cpp, src/llama-quant.cpp; see :mod:`tfcalc.footprint.formats.gguf_files`.
    """

    name: str
    source: str = "llama.cpp, src/llama-quant.cpp"
    kinds: tuple[str, ...] = TABLES
    rest: str = "fp32"
    plain: bool = False

    @property
    def by_layer(self) -> bool:
        """Whether layers differ."""
        return self.name in BY_LAYER

    def of(self, kind: str, tensor: str, layer: int, columns: object, facts: Facts) -> Format:
        """The block type of this matrix."""
        what = kind if kind in ("output", "embedding") else tensor
        return fitting(type_of(self.name, what, layer, facts), columns)


def facts_of(tree: Component, name: str) -> Facts:
    """What llama.cpp's rules for this file type ask of a model.

    Raises InvalidModel for a family that it has other rules for, and where they ask for a size that is a symbol.
    """
    if tree.name.startswith("Falcon") and "Mamba" not in tree.name:
        raise InvalidModel(
            f"llama.cpp mixes the types of a {tree.name} by rules of its own", "write q4_k-pure or q8_0-pure"
        )
    experts = layers = 0
    shapes: dict[str, tuple[int, int]] = {}
    tied = True
    for node in tree.walk():
        part = node.component
        if part.kind == "experts" or (part.kind == "layer" and name not in BY_NAME):
            _check(part, name)
        if part.kind == "experts" and isinstance(part.copies, int):
            experts = max(experts, part.copies)
        stacked = sum(inner.copies for inner in part.parts if inner.kind == "layer" and isinstance(inner.copies, int))
        layers = max(layers, stacked)
        for weight in part.own.weights:
            tied = tied and not (part.kind == "output" and weight.key == "weight" and weight.tied_to is None)
            if len(weight.shape) == 2 and all(isinstance(size, int) for size in weight.shape):
                fan_in, fan_out = weight.shape
                shapes.setdefault(weight.name, (int(fan_in), int(fan_out)))  # type: ignore[call-overload]
    queries = shapes["W_O"][0] if "W_O" in shapes else 0
    joined = (shapes["W_QKV"][1] - queries) // 2 if "W_QKV" in shapes else 0
    values = shapes["W_V"][1] if "W_V" in shapes else joined
    return Facts(0 < 4 * values <= queries, experts, tied, layers)


def _check(part: Component, name: str) -> None:
    sizes = [part.copies, *(size for node in part.walk() for one in node.component.own.weights for size in one.shape)]
    if not all(isinstance(size, int) for size in sizes):
        raise InvalidModel(
            f"llama.cpp's {name} gives each {part.kind} its types by sizes, which are symbols here",
            "give the sizes, or take one type for all: q8_0-pure",
        )
