"""Attention whose output is gated by what is made of its input when the output is there."""

from __future__ import annotations

from tfcalc.nn.attention import Attention
from tfcalc.nn.context import Context
from tfcalc.ops.elementwise import mul
from tfcalc.ops.shapes import reshape, unsqueeze
from tfcalc.tape.tensor import Tensor


class GatedBehind(Attention):
    """What the heads made is multiplied by an activation of the ``gate``: a number for each head, or for all it made.

    That activation may run in fp32 (``gate_in_float32``), which is of no consequence to what is counted.

    Source: Qiu et al. 2025 (arXiv 2505.06708); transformers' LagunaAttention, Lfm3Attention.
    """

    opens: str = "sigmoid"
    by_head: bool = True
    gate_in_float32: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        return self.output(self._multiplied(self.mixed(list(self._projected(x, x, ctx)), ctx), x, ctx))

    def _multiplied(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        assert self.gate is not None
        trace, logits = x.trace, self.gate(x)
        logits = trace.to(logits, "float32") if self.gate_in_float32 else logits
        gate = ctx.activation(self.opens, logits, "gate")
        gate = trace.to(gate, made.dtype) if self.gate_in_float32 else gate
        if not self.by_head:
            return mul(made, gate)
        heads = reshape(made, *made.shape[:2], self.heads, self.value_dim)
        return reshape(mul(heads, unsqueeze(gate, -1)), *made.shape)
