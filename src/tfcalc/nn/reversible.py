"""Layers whose inputs are computed back from what they make, so that none is kept (Reformer)."""

from __future__ import annotations

from tfcalc.errors import InvalidModel
from tfcalc.nn.basic import Norm
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Positions
from tfcalc.nn.encoder import Layers
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import dropout, residual
from tfcalc.ops.shapes import cat, expand
from tfcalc.tape.tensor import Tensor


class ReversibleLayer(Module):
    """``y = y + f(norm(x))``, and then ``x = x + g(norm(y))``: the first stream is added to, then the other.

    Source: Gomez et al. 2017 (RevNets, arXiv 1707.04585), eq. 6.
    """

    kind = "layer"

    mixer: Module
    network: Module
    norms: tuple[Norm, Norm]
    dropped: bool = False

    def both(self, x: Tensor, other: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Of both streams, the one that attention reads first; in the same order."""
        before, behind = self.norms
        other = residual(other, self._dropped(self.mixer(before(x, ctx), ctx), ctx, "attention"), "attention")
        made = self._dropped(self.network(behind(other, ctx), ctx), ctx, "feed_forward")
        return residual(x, made, "feed_forward"), other

    def _dropped(self, x: Tensor, ctx: Context, name: str) -> Tensor:
        return dropout(x, f"{name}_dropout") if self.dropped and ctx.drops else x


class ReversibleLayers(Layers):
    """Reversible layers, and a norm of both streams side by side. Both begin as the embedding."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the embedding."""
        trace, other = x.trace, x
        if trace.lowers:
            raise InvalidModel("training memory of reversible layers is not supported", "ask for parameters or FLOPs")
        for group in self.layers.groups:
            layer = group.layer
            assert isinstance(layer, ReversibleLayer)
            with trace.group(group), trace.again():
                x, other = layer.both(x, other, ctx)
        both = cat([other, x])
        return both if self.norm is None else self.norm(both, ctx)


class Axes(Module):
    """A vector for each coordinate of a token's place, each of which is a piece of the whole (``axes``).

    Source: transformers' AxialPositionEmbeddings (Reformer).
    """

    kind = "position"

    axes: tuple[Positions, ...]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the places of these tokens."""
        pieces = [each(x, ctx) for each in self.axes]
        return cat([expand(each, *x.shape, each.width) for each in pieces])
