"""Latent attention whose values are gated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear
from tfcalc.ops.elementwise import activation, mul, pointwise
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor

if TYPE_CHECKING:
    pass


class LatentGate(Linear):
    """What the heads made is multiplied by the sigmoid of this map: a number for each head, or for ``each_value``.

    The sigmoid may be in fp32, and what comes of it in the format of what the map read (``in_float32``). A program may
    make the gate ``first``, before queries and keys.

    Source: arXiv 2505.06708; transformers' BailingHybridAttention, Dots3NoteTextAttention, HYV4Attention.
    """

    each_value: bool = False
    in_float32: bool = False
    first: bool = False

    def opened(self, made: Tensor, gate: Tensor, x: Tensor, values: Num) -> Tensor:
        """Of b × a × l × d, with the ``gate`` that it has made of ``x``: b × l × a·d."""
        trace, (b, heads, l, width) = made.trace, made.shape
        gate = trace.to(gate, "float32") if self.in_float32 else gate
        gate = sigmoid(gate)
        gate = trace.to(gate, x.dtype) if self.in_float32 else gate
        gate = reshape(gate, b, l, heads, width if self.each_value else 1)
        return reshape(mul(transpose(made, 1, 2), gate), b, l, values)


def sigmoid(gate: Tensor) -> Tensor:
    """How far it is open."""
    return activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate")
