"""Lightning attention: linear attention whose heads forget at fixed rates, computed by blocks."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Buffer, Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, mul, pointwise, residual, scaled
from tfcalc.ops.keeping import STATE, by_sequence
from tfcalc.ops.linear_attention import lightning
from tfcalc.ops.recurrences import States
from tfcalc.ops.scan import recurrence
from tfcalc.ops.shapes import reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class LightningAttention(Module):
    """``heads`` states of ``head_dim`` × ``head_dim``, each with a query, key and value of its own.

    One matrix and an ``activation`` make queries, keys and values; a norm of the whole output is gated by a sigmoid of
    the input. A head's decay is fixed by its own and the layer's place, and stored for each pair of places in a
    ``block``.

    Source: MiniMax-01 (arXiv 2501.08313), section 2.2; transformers' MiniMaxLightningAttention.
    """

    kind = "ssm"
    loops = True

    qkv: Linear
    activation: str
    decays: tuple[Buffer, ...]
    norm: Norm
    gate: Linear
    output: Linear
    heads: Num
    head_dim: Num
    block: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x``, of b × l × h, make of each other."""
        stream, a, d, rows = ctx.stream, self.heads, self.head_dim, x.shape[:2]
        made = self.qkv(x)
        made = ctx.activation(self.activation, made)
        q, k, v = (transpose(each, 1, 2) for each in split(reshape(made, *rows, a, 3 * d), [d] * 3))
        states = States(stream.batch, stream.length, a, d, d, step=stream.cached is not None)
        formula, cached = lightning("scan", states, self.block), by_sequence(stream, STATE, a, d * d)
        made = recurrence(formula, q, q.shape, lambda: ctx.backend.scan(self, ctx, q, k, v), cached=cached)
        made = self.norm(reshape(transpose(made, 1, 2), *rows, a * d), ctx)
        gate = self.gate(x)
        return self.output(mul(activation("sigmoid", gate, lambda: pointwise("sigmoid", gate), "gate"), made))


class NormedStream(PreNorm):
    """``x ← norm(x)``, and then ``α·x + β·f(x)``: it is the normed vectors that are added to (MiniMax-01)."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        for norm, sub in self.running(ctx):
            x = norm(x, ctx)
            made = sub(x, ctx)
            x = residual(scaled(x), scaled(made), sub.name)
        return x
