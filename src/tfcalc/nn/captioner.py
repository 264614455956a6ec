"""Decoders that read an image's vectors before the words, as part of their own sequence (GIT)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cached
from tfcalc.core.number import Num
from tfcalc.nn.basic import Stored
from tfcalc.nn.context import Context
from tfcalc.nn.embeddings import Embeddings
from tfcalc.nn.encoder import Layers
from tfcalc.nn.encoder_decoder import EncoderOnly
from tfcalc.nn.masked import Masked
from tfcalc.nn.module import Module
from tfcalc.nn.reader import Projector
from tfcalc.nn.turn_by_turn import each_turn
from tfcalc.ops.elementwise import add
from tfcalc.ops.keeping import by_token
from tfcalc.ops.shapes import beside, cat, copied, reshape
from tfcalc.tape.tensor import Tensor
from tfcalc.tape.trace import Trace


def by_products(ctx: Context) -> Context:
    """As a program runs that has no fused kernels of attention, whatever is asked for."""
    return ctx if ctx.code is None or ctx.fuses else ctx._replace(run=ctx.run.replaced(kernel="eager"))


class PlainTower(EncoderOnly):
    """A tower by itself, in such a program."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of images that are given beside ``x``."""
        return super().forward(x, by_products(ctx))


class BehindImages(Masked):
    """Vectors of images see each other both ways, words only back: all are cached."""

    def _kept(self, ctx: Context) -> tuple[Cached, ...]:
        return by_token(ctx.stream, ctx.stream, self.kv_heads, {"K": self.key_dim, "V": self.value_dim})


class Moments(Stored):
    """A trained vector for each of so many images (``count``), which are the frames of a film."""

    count: Num = 1

    @property
    def copies(self) -> Num:
        """One for each."""
        return self.count

    def at(self, trace: Trace, place: int) -> Tensor:
        """That of this place."""
        return Stored(f"{self.name}.{place}", self.tensor).weight(trace)


class Captioner(Module):
    """A tower for so many ``images`` of each sequence, a projection of their ``vectors``, and layers.

    Several images are frames, which run one after another, and have a vector each for their place (``moments``).

    Source: Wang et al. 2022 (arXiv 2205.14100), section 3.1.
    """

    kind = "decoder"

    table: Embeddings
    tower: Module
    layers: Layers
    projection: Projector
    moments: Moments | None
    images: Num
    vectors: Num
    width: Num

    @property
    def parts(self) -> Iterator[Module]:
        """In the program's order."""
        parts = (self.table, self.tower, self.layers, self.projection, self.moments)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids; the images are given beside them."""
        ctx = by_products(ctx)
        words = self.table(x, ctx)
        seen = self.projection(self._seen(x, ctx), ctx)
        if seen.trace.lowers:
            seen = copied(seen, name="repeat")
        stream, before = ctx.stream, self.images * self.vectors
        both = stream._replace(
            length=stream.length + seen.shape[1], cached=None if stream.cached is None else before + stream.cached
        )
        x = beside((seen, words), (both.batch, both.length, words.width))
        return self.layers(x, ctx._replace(stream=both))

    def _seen(self, x: Tensor, ctx: Context) -> Tensor:
        """The vectors of all images, side by side; none where they were seen before."""
        if x.trace.lowers and self.moments is not None:
            frames = each_turn(self.images, "images")
            return cat([add(self.tower(x, ctx), self.moments.at(x.trace, place)) for place in frames], 1)
        run = ctx.run.replaced(batch_size=ctx.run.batch_size * self.images)
        made = self.tower(x, ctx._replace(run=run))
        place = ctx.run.beside(self.images * self.vectors)
        return reshape(made, place.batch, place.length, self.width)
