"""Which kernels a run launches, and how many bytes each reads and writes."""

from __future__ import annotations

from typing import NamedTuple

from tfcalc.core.number import Num, total
from tfcalc.core.traced import value_of
from tfcalc.tape.call import Call
from tfcalc.tape.memory_tracker import WIDTHS
from tfcalc.tape.tensor import Tensor


class Kernel(NamedTuple):
    """A kernel of an operation, which is all of it unless the operation is ``several``.

    Attributes:
        name: as PyTorch's dispatcher has it, such as ``mm``.
        module: the module that runs it, such as ``model.layers.0.mlp.up_proj``.
        reads: bytes of its operands; of what a view repeats, and of a table's rows, those that are there once.
        writes: bytes of its result.
    """

    name: str
    module: str
    reads: int
    writes: int


def launched(call: Call, made: Tensor, module: str) -> list[Kernel]:
    """Those of an operation that has run; of several each but the last hands on as much as the result is."""
    reads = total(map(_read, call.inputs)) if call.reads is None else call.reads
    writes = made.elements * WIDTHS[made.dtype]
    names = call.ran
    each_reads = [reads, *[writes] * (len(names) - 1)]
    return [
        Kernel(name, module, value_of(read), value_of(writes)) for name, read in zip(names, each_reads, strict=False)
    ]


def _read(x: Tensor | None) -> Num:
    if x is None:
        return 0
    there = x.storage.elements
    few = min(x.elements, there) if isinstance(x.elements, int) and isinstance(there, int) else x.elements
    return few * WIDTHS[x.dtype]
