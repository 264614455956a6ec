"""Towers that give fewer and wider vectors than they have patches: pixels move from both sides into the width."""

from __future__ import annotations

from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.module import Module
from tfcalc.nn.tower import OpenTower
from tfcalc.ops.shapes import copied, part
from tfcalc.tape.tensor import Tensor


class TwiceActivated(Module):
    """Two linear maps, each with an activation behind it."""

    kind = "ffn"

    up: Linear
    down: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each vector."""
        for place, each in enumerate((self.up, self.down), 1):
            x = ctx.activation(self.activation, each(x), f"activation_{place}")
        return x


class ShuffleAdapter(Module):
    """The vectors of patches laid side by side, so many of each image (``count``), through a network."""

    kind = "projector"

    network: TwiceActivated
    count: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × patches × h; two copies change which pixels stand beside each other."""
        shape = (x.shape[0], ctx.run.beside(self.count).length, self.network.up.fan_in)
        return self.network(copied(copied(x), shape), ctx)


class Adapted(OpenTower):
    """A tower with an adapter behind it, which does not read the class."""

    adapter: ShuffleAdapter | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Fewer vectors than there are patches."""
        made = super().forward(x, ctx)
        assert self.adapter is not None
        return self.adapter(part(made, 1, ctx.run.beside(self.count - 1).length), ctx)
