"""Images as sequences of patches: a vector for each patch, and where it stands."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, product
from tfcalc.nn.basic import PositionVectors, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import BUFFER, rows_asked
from tfcalc.nn.module import Module
from tfcalc.ops.convolution import convolution
from tfcalc.ops.elementwise import add, dropout
from tfcalc.ops.shapes import beside, copied, expand, part, reshape, transpose
from tfcalc.ops.tables import position
from tfcalc.tape.tensor import Tensor


class Patches(Module):
    """A convolution whose stride is its ``kernel``: each patch of an image, of so many (``grid``), becomes a vector.

    Pixels that are left over at the edges belong to none. Pixels are data, and need no gradient.

    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), section 3.1.
    """

    kind = "convolution"

    channels: Num
    width: Num
    kernel: tuple[Num, ...]
    grid: tuple[Num, ...]
    bias: bool = True

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, self.channels, *self.kernel))
        bias = [Weight("b", (self.width,), minor=True, key="bias")] if self.bias else []
        return Cost(weights=(weight, *bias))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of pixels, b × channels × height × width; of b × patches × h."""
        weight, bias, *_ = *self.weights(x.trace), None
        places = ctx.run.beside(product(self.grid)).length  # none where the image was seen before
        return transpose(convolution(x, weight, bias, places), 1, 2)


class ImagePositions(PositionVectors):
    """A trained vector of this ``width`` for each place of an image, which is added as it stands.

    Some programs look it up: by numbers that are a buffer, or that they make for each image (``looked_up``).
    """

    looked_up: str = ""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """For all places of ``x``."""
        (table,) = self.weights(x.trace)
        if x.trace.lowers and not self.looked_up:
            return reshape(table, 1, self.rows, self.width)
        return position(table, rows_asked(x.trace.view(x, x.shape[:2], None), self.looked_up or BUFFER, ctx), x.rows)


class ImageEmbeddings(Module):
    """The patches' vectors behind some ``tokens`` that are trained, with a position for all of them.

    Where positions are ``of_patches`` alone, they are added before. What an image's hidden patches would have in their
    place is ``unread``. Some of the sum is ``dropped``.
    """

    kind = "embedding"

    tokens: tuple[Stored, ...]
    patches: Module
    positions: Module | None
    unread: tuple[Stored, ...] = ()
    dropped: bool = False
    of_patches: bool = False

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of pixels."""
        made = self.patches(x, ctx)
        if self.of_patches and self.positions is not None:
            made = add(made, self.positions(made, ctx))
        if self.tokens:
            made = self._behind_tokens(made, ctx)
        if not self.of_patches and self.positions is not None:
            made = add(made, self.positions(made, ctx))
        return dropout(made, "embedding_dropout") if self.dropped and ctx.drops else made

    def _behind_tokens(self, x: Tensor, ctx: Context) -> Tensor:
        b, _, h = x.shape
        rows = [reshape(each.weight(x.trace), 1, *_rows(each), h) for each in self.tokens]
        parts = (*(expand(each, b, *each.shape[1:]) for each in rows), x)
        return beside(parts, (b, ctx.stream.length, h))


def _rows(token: Stored) -> tuple[Num, ...]:
    """How many vectors it is."""
    shape = token.tensor.shape
    return shape[:-1] or (1,)


class PixelEmbeddings(ImageEmbeddings):
    """The same of an image that comes cut into so many patches (``count``) of pixels."""

    count: Num = 1

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of pixels, b × patches × pixels of each."""
        return super().forward(part(x, 1, ctx.run.beside(self.count).length), ctx)


class Resized(ImagePositions):
    """A table of places of a square, which is drawn out to the shape of each image."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """For all patches of all images."""
        (table,) = self.weights(x.trace)
        if x.trace.lowers:
            return copied(table, x.shape, "resized")
        return position(table, x.trace.given((1, x.shape[1]), "int64", "places"), x.rows)
