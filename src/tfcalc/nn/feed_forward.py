"""The feed-forward network: two linear maps with an activation between them, or three with a gate."""

from __future__ import annotations

from typing import Any

from tfcalc.nn.basic import Linear, Norm, Parameter
from tfcalc.nn.module import Context, Module
from tfcalc.ops.elementwise import dropout, mul
from tfcalc.ops.shapes import split
from tfcalc.tape.tensor import Tensor


class FeedForward(Module):
    """``activation(x W_1 + b_1) W_2 + b_2``, on each token by itself.

    ``code`` says whose program the activation is, where that is not the one that goes by its name.
    A program may bring what the last map reads to the format of its weights first (``as_weights``), even in autocast.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), eq. 2.
    """

    kind = "ffn"

    up: Linear
    down: Linear
    activation: str
    dropout: bool = False
    learned: tuple[Parameter, ...] = ()
    code: str = ""
    as_weights: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each token."""
        return self._further([self.up(x)], ctx)

    def _further(self, given: list[Tensor], ctx: Context) -> Tensor:
        inner = ctx.activation(self.activation, given.pop(), code=self.code)
        if self.dropout and ctx.drops:
            inner = dropout(inner, "activation_dropout")
        return self.down(inner.trace.to(inner, inner.trace.weights_format) if self.as_weights else inner)


class InLayer(FeedForward):
    """A feed-forward network written line by line in the layer: each result takes the place of its input."""

    def call_consuming(self, given: list[Tensor], *more: Any) -> Tensor:
        """Run the network, and release the first map's input once it has been read."""
        (ctx,) = more
        with given[0].trace.inside(self):
            return self._further([self.up(given.pop())], ctx)


class GatedFeedForward(Module):
    """``(activation(x W_g) · x W_1) W_2``; where one map makes gate and input, ``gate`` is None.

    A ``sub_norm`` precedes the last map (arXiv 2210.06423). A program may bring what that reads to the format of its
    weights first (``as_weights``), even in autocast.

    Source: Shazeer 2020 (arXiv 2002.05202), eq. 6.
    """

    kind = "ffn"

    gate: Linear | None
    up: Linear
    down: Linear
    activation: str
    learned: tuple[Parameter, ...] = ()
    sub_norm: Norm | None = None
    dropout: bool = False
    as_weights: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Return the network's output for each token."""
        made = self.gated(x, ctx)
        return self.down(made if self.sub_norm is None else self.sub_norm(made, ctx))

    def gated(self, x: Tensor, ctx: Context) -> Tensor:
        """Multiply the activation of the gate with the other map's output."""
        if self.gate is None:
            gate, up = split(self.up(x), [self.down.fan_in] * 2)
            return self._dropped(self.halves_gated(gate, up, ctx), ctx)
        if ctx.fuses_gates:
            return self._dropped(ctx.backend.gate(self.activation, self.gate(x), self.up(x)), ctx)
        return self._dropped(mul(self.activated(self.gate(x), ctx), self.up(x)), ctx)

    def _dropped(self, x: Tensor, ctx: Context) -> Tensor:
        x = dropout(x, "activation_dropout") if self.dropout and ctx.drops else x
        return x.trace.to(x, x.trace.weights_format) if self.as_weights else x

    def halves_gated(self, gate: Tensor, up: Tensor, ctx: Context) -> Tensor:
        """Gate and input that one map has made; they are there until the network ends."""
        if ctx.fuses_gates:
            return ctx.backend.gate(self.activation, gate, up)
        return mul(self.activated(gate, ctx), up)

    def activated(self, x: Tensor, ctx: Context) -> Tensor:
        """The activation of the gate."""
        return ctx.activation(self.activation, x)
