"""Images of any shape, whose patches lie in one sequence."""

from __future__ import annotations

from tfcalc.nn.attention import Attention, attentions
from tfcalc.nn.context import Context
from tfcalc.nn.tower import Tower
from tfcalc.ops.shapes import reshape
from tfcalc.tape.tensor import Tensor


class AmongImages(Attention):
    """Attention in a sequence of several images, which a mask keeps from each other."""

    @property
    def looks_at_mask(self) -> bool:
        """Always."""
        return True


class Packed(Tower):
    """A tower that reads the patches of all images of a batch as one sequence (Pixtral, arXiv 2410.07073)."""

    def laid(self, x: Tensor, ctx: Context) -> tuple[Tensor, Context]:
        """The patches of all images behind each other."""
        row = ctx.stream._replace(batch=1, length=ctx.stream.tokens)
        return reshape(x, 1, row.length, x.width), ctx._replace(stream=row)

    def through(self, x: Tensor, ctx: Context) -> Tensor:
        """The layers, which read a mask of all pairs."""
        if x.trace.lowers:
            ctx = ctx.backend.begin(ctx, x, list(attentions(self.layers)), ())
            pairs = (1, 1, ctx.stream.length, ctx.stream.length)
            ctx = ctx._replace(masks=ctx.masks or {None: x.trace.new(pairs, x.dtype, "mask of images")})
        return self.layers(x, ctx)
