"""Kernels that a run launches, with the bytes that each reads and writes."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, total
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor


class Kernel(NamedTuple):
    """A launched kernel: an operation, or one of several that it consists of.

    Attributes:
        name: PyTorch dispatcher's name, such as ``mm``.
        module: module that runs it, such as ``model.layers.0.mlp.up_proj``.
        reads: bytes of its operands; what a view repeats counts once.
        writes: bytes of its result.
    """

    name: str
    module: str
    reads: int
    writes: int


def launched(call: Call, result: Tensor, module: str) -> list[Kernel]:
    """Return the kernels of an operation; each but the last of several writes as many bytes as the result has."""
    reads = total(map(_read, call.inputs)) if call.reads is None else call.reads
    writes = result.elements * WIDTHS[result.dtype]
    names = call.ran
    each_reads = [reads, *[writes] * (len(names) - 1)]
    return [
        Kernel(name, module, value_of(read), value_of(writes)) for name, read in zip(names, each_reads, strict=False)
    ]


def _read(x: Tensor | None) -> Num:
    if x is None:
        return 0
    stored, elements = x.storage.elements, x.elements
    if isinstance(elements, int) and isinstance(stored, int):
        elements = min(elements, stored)  # an expanded view repeats its storage, which is read once
    return elements * WIDTHS[x.dtype]
