"""Towers: what reads images alone, as a sequence of patches that all see each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from tfcalc.core.cost import Cost
from tfcalc.core.number import Num
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import Layers, through
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Group, Stack
from tfcalc.ops.elementwise import activation
from tfcalc.ops.shapes import first
from tfcalc.tape.tensor import Tensor


class Pooler(Module):
    """A map of the first vector, and an activation."""

    kind = "pooler"

    dense: Linear
    activation: str

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of all vectors."""
        made = self.dense(first(x))
        return activation(self.activation, made, lambda: ctx.backend.activation(self.activation, made))


class Tower(Module):
    """Patches' vectors (and a norm), layers, a norm: one image for each sequence, of so many vectors (``count``).

    ``pixels`` are an image's colours, height and width. What a ``pooler`` makes of it all is read by some (``pools``),
    but not by those who read a vector for each patch; a program's loss does not read it either.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1.
    """

    kind = "encoder"

    pixels: tuple[Num, ...]
    count: Num
    table: Module
    first: Norm | None
    layers: Layers | Stack
    norm: Norm | None
    pooler: Module | None = None
    pools: bool = True

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each patch; the images are given beside ``x``, which is not read."""
        return self.seen(x, ctx)[0]

    def seen(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor | None]:
        """A vector for each patch, and what the pooler makes of them."""
        trace, ctx = x.trace, ctx._replace(stream=ctx.run.beside(self.count))
        x = trace.given((ctx.stream.batch, *self.pixels), "float32", "pixels")
        x = self.table(trace.to(x, trace.weights_format), ctx)
        x = x if self.first is None else self.first(x, ctx)
        x = self.layers(x, ctx) if isinstance(self.layers, Layers) else through(self.layers, x, ctx)
        x = x if self.norm is None else self.norm(x, ctx)
        if self.pooler is None:
            return x, None
        read = self.pools and not trace.lowers if ctx.run.training else True
        with nullcontext() if read else trace.without_gradients():
            return x, self.pooler(x, ctx)


class ReadEarly(Stack):
    """Layers of which the ``late`` last ones make what nobody reads: in training, they stand apart."""

    late: Num = 0

    def run(self, given: list[Tensor], ctx: Context) -> Tensor:
        """The same."""
        if not ctx.run.training:
            return super().run(given, ctx)
        x, layer = given.pop(), self.layers[0]
        read = Group(self.name, layer, self.count - self.late, self.count, mark="[read]")
        with x.trace.group(read):
            x = layer.forward(x, ctx)
        late = Group(self.name, Unread(layer.name, layer), self.late, self.count, mark="[unread]")
        with x.trace.group(late), x.trace.without_gradients():
            return layer.forward(x, ctx)


class Unread(Module):
    """A layer that makes what nobody reads: no layer to recomputation."""

    kind = "unread"

    layer: Module

    @property
    def parts(self) -> Iterator[Module]:
        """The layer's."""
        return self.layer.parts

    def held(self) -> Cost:
        """What the layer does."""
        return self.layer.held()
