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
        return ctx.activation(self.activation, made)


class Tower(Module):
    """Patches' vectors (and a norm), layers, a norm: one image for each sequence, of so many vectors (``count``).

    ``pixels`` are an image's colours, height and width, or how many each of its patches has, where it comes cut. What a
    ``pooler`` makes of it all is read by some (``pools``), but not by those who read a vector for each patch; a
    program's loss does not read it either. The norm may be of the first vector ``alone``, which then stands for the
    whole.

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
    alone: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each patch; the images are given beside ``x``, which is not read."""
        return self._seen(x, ctx, reads=self.pools and not x.trace.lowers)[0]

    def pooled(self, x: Tensor, ctx: Context) -> Tensor:
        """One vector for each image."""
        with x.trace.inside(self):
            return self._seen(x, ctx, reads=True)[1]

    def _seen(self, x: Tensor, ctx: Context, *, reads: bool) -> tuple[Tensor, Tensor]:
        trace, ctx = x.trace, ctx._replace(stream=ctx.run.beside(self.count))
        cut = (ctx.stream.length,) if len(self.pixels) == 1 else ()
        x = trace.given((ctx.stream.batch, *cut, *self.pixels), "float32", "pixels")
        x, ctx = self.laid(self.embedded(trace.to(x, trace.weights_format), ctx), ctx)
        x = self.through(x if self.first is None else self.first(x, ctx), ctx)
        x = x if self.norm is None or self.alone else self.norm(x, ctx)
        with nullcontext() if reads or not ctx.run.training else trace.without_gradients():
            return x, self._whole(x, ctx)

    def embedded(self, x: Tensor, ctx: Context) -> Tensor:
        """The patches' vectors, and where they stand."""
        return self.table(x, ctx)

    def laid(self, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """The sequences that the layers read: those of each image by itself."""
        return x, ctx

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """What the layers make."""
        return self.layers(x, ctx) if isinstance(self.layers, Layers) else through(self.layers, x, ctx)

    def _whole(self, x: Tensor, ctx: Context) -> Tensor:
        if self.pooler is not None:
            return self.pooler(x, ctx)
        return self.norm(first(x), ctx) if self.alone and self.norm is not None else first(x)


class OpenTower(Tower):
    """One whose embeddings are no module of their own."""

    @property
    def parts(self) -> Iterator[Module]:
        """Those of the embeddings stand beside the others."""
        return iter((*self.table.parts, *(each for each in super().parts if each is not self.table)))

    def embedded(self, x: Tensor, ctx: Context) -> Tensor:
        """The patches' vectors, and where they stand."""
        return self.table.forward(x, ctx)


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
            layer.forward(x, ctx)
        return x


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

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """As the layer does."""
        return self.layer.forward(x, ctx)
