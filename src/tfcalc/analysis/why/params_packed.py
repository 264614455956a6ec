"""Quantized weights, counted as the numbers that they are stored as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tfcalc.analysis.why.params_adapters import ends
from tfcalc.analysis.why.step import State, Step
from tfcalc.analysis.why.tensors import HEAD, ROUTER, Cell

if TYPE_CHECKING:
    from tfcalc.core.component import Component

PACKED, RARELY = 1.5, 2.0
GROUP = 128
"""Of GPTQ."""


def is_packed(cell: Cell) -> bool:
    """A matrix in a layer, but for routers."""
    return cell.layer and cell.role.startswith("W_") and cell.role != ROUTER


def steps(tree: Component) -> Iterator[Step[Cell]]:
    """What bitsandbytes, GPTQ and MLX make of 4 bits."""
    inputs_and_outputs = ends(tree, ())
    halves = "two weights of 4 bits stored as one number, so that numel() counts half of the layers' matrices"
    yield Step("packed", halves, PACKED, _stored(lambda n: n // 2), "packed")
    words = f"{halves}, beside an absmax for each block of 64 (bitsandbytes)"
    yield Step("packed_absmax", words, PACKED, _stored(lambda n: n // 2 + n // 64), "packed")
    words = "four weights of 4 bits stored as one number of 16 bits (bitsandbytes' quant_storage, for FSDP)"
    yield Step("packed_16_bits", words, RARELY, _stored(lambda n: n // 4), "packed")
    words = "without the layers' matrices: what quantization to 4 bits leaves, and so trains (embeddings, norms)"
    yield Step("not_quantized", words, PACKED, lambda state: state.without(is_packed), "packed")
    words = f"eight weights of 4 bits stored as one int32, beside scales and zero points of groups of {GROUP} (GPTQ)"

    def eighth(state: State[Cell]) -> State[Cell] | None:
        fewer = _stored(lambda n: n // 8 + n // GROUP + n // (8 * GROUP))(state)
        return None if fewer is None else fewer.plus({Cell("indices and biases"): inputs_and_outputs})

    yield Step("packed_int32", words, PACKED, eighth, "packed")
    words = "eight weights of 4 bits stored as one uint32, beside a scale and a bias of each group of 64 (MLX)"
    yield Step("packed_uint32", words, PACKED, _stored(lambda n: n // 8 + n // 32, with_head=True), "packed")


def _stored(of: Callable[[int], int], *, with_head: bool = False) -> Callable[[State[Cell]], State[Cell] | None]:
    """The layers' matrices as so many numbers, and the output head where it is one of its own."""

    def change(state: State[Cell]) -> State[Cell] | None:
        return state.changed(lambda c, n: of(n) if is_packed(c) or (with_head and c.role == HEAD) else n)

    return change
