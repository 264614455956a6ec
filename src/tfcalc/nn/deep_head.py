"""Heads of more than one map."""

from __future__ import annotations

from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.tape.tensor import Tensor


class DeepHead(Module):
    """A model whose vectors go through one more map and an activation before a classifier reads them."""

    kind = "model"

    base: Module
    dense: Linear
    activation: str
    head: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        made = self.dense(self.base(x, ctx))
        return self.head(ctx.activation(self.activation, made))
