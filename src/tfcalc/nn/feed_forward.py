"""The feed-forward network: two linear maps with an activation between them, or three with a gate."""

from __future__ import annotations

from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, dropout, mul
from tfcalc.ops.shapes import split
from tfcalc.tape.tensor import Tensor


class FeedForward(Module):
    """``activation(x W_1 + b_1) W_2 + b_2``, on each token by itself.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), eq. 2.
    """

    kind = "ffn"

    up: Linear
    down: Linear
    activation: str
    dropout: bool = False
    learned: tuple[Stored, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        inner = self.up(x)
        inner = activation(self.activation, inner, lambda: ctx.backend.activation(self.activation, inner))
        if self.dropout and ctx.drops:
            inner = dropout(inner, "activation_dropout")
        return self.down(inner)


class GatedFeedForward(Module):
    """``(activation(x W_g) · x W_1) W_2``; where one map makes gate and input, ``gate`` is None.

    A ``sub_norm`` stands before the last map (arXiv 2210.06423).

    Source: Shazeer 2020 (arXiv 2002.05202), eq. 6.
    """

    kind = "ffn"

    gate: Linear | None
    up: Linear
    down: Linear
    activation: str
    learned: tuple[Stored, ...] = ()
    sub_norm: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """On each token."""
        made = self._gated(x, ctx)
        return self.down(made if self.sub_norm is None else self.sub_norm(made, ctx))

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        if self.gate is None:
            gate, up = split(self.up(x), [self.down.fan_in] * 2)
            return self._halves_gated(gate, up, ctx)
        if ctx.fuses:
            return ctx.backend.gate(self.activation, self.gate(x), self.up(x))
        return mul(self._activated(self.gate(x), ctx), self.up(x))

    def _halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made; they are there until the network ends."""
        if ctx.fuses:
            return ctx.backend.gate(self.activation, gate, up)
        return mul(self._activated(gate, ctx), up)

    def _activated(self, x: Tensor, ctx: Context) -> Tensor:
        return activation(self.activation, x, lambda: ctx.backend.activation(self.activation, x))
