"""A few latent vectors that read a long input, and are read by the queries of the output (Perceiver)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.model import WithHead
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.nn.turn_by_turn import each_turn
from tfcalc.ops.convolution import map_of_pixels
from tfcalc.ops.elementwise import add, residual
from tfcalc.ops.shapes import cat, expand
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


class PerceiverLayer(Module):
    """Attention, to the context's ``memory`` where that has a norm of its own (``other``), and a network.

    It runs so many ``times`` with the same weights.
    """

    kind = "layer"

    norm: Norm
    other: Norm | None
    attention: Attention
    last: Norm
    network: FeedForward
    times: Num = 1

    @property
    def passes(self) -> Num:
        """How often it runs."""
        return self.times

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of queries."""
        normed = self.norm(x, ctx)
        if self.other is not None and ctx.memory is not None:
            ctx = ctx._replace(memory=ctx.memory._replace(vectors=self.other(ctx.memory.vectors, ctx)))
        x = residual(x, self.attention(normed, ctx), self.attention.name)
        return residual(x, self.network(self.last(x, ctx), ctx), self.network.name)


class RepeatedStack(Stack):
    """Layers that run one upon another, and again from the first, so many ``times``."""

    times: Num = 1

    def __call__(self, x: Tensor, ctx: Context) -> Tensor:
        """Turn by turn, where it matters what is live when; else one turn for all."""
        for _ in each_turn(self.times if x.trace.lowers else 1):
            x = super().__call__(x, ctx)
        return x


class LatentEncoder(Module):
    """Latent vectors read the input, and then each other."""

    kind = "encoder"

    reads: PerceiverLayer
    thinks: RepeatedStack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of latent vectors."""
        return self.thinks(self.reads(x, ctx), ctx._replace(memory=None))


class LatentDecoder(Module):
    """Trained queries of the output that read the latent vectors, and a last map, where there is one."""

    kind = "decoder"

    query: Stored
    reads: PerceiverLayer
    final: Linear | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of latent vectors."""
        batch, (places, width) = x.shape[0], self.query.tensor.shape
        query = expand(self.query.weight(x.trace), batch, places, width)
        made = self.reads(query, ctx.asking(Sequences(batch, places), x, ctx.stream))
        return made if self.final is None else self.final(made)


class ColourMap(Module):
    """A map of each pixel's colours."""

    kind = "convolution"

    colours: Num
    width: Num

    def held(self) -> Cost:
        """W and b."""
        weight = Weight("w", (self.width, self.colours, 1, 1))
        return Cost(weights=(weight, Weight("b", (self.width,), minor=True, key="bias")))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of b × pixels × colours."""
        weight, bias = self.weights(x.trace)
        return map_of_pixels(x, weight, bias)


class Perceiver(Module):
    """What reads the input, latent vectors, what they make of it, and queries of the output.

    The input are words (``tables``), the pixels of an image (``pixels``) with a map of their ``places``, or vectors
    that something else has made.
    """

    kind = "encoder"

    tables: tuple[Module, ...]
    pixels: tuple[ColourMap, Stored, Linear] | None
    latents: Stored
    encoder: LatentEncoder
    decoder: LatentDecoder | None
    width: Num
    side: Num | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """In the order in which they run."""
        parts = (*self.tables, *(self.pixels or ()), self.latents, self.encoder, self.decoder)
        return (part for part in parts if part is not None)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids, in whose place an image or vectors may stand."""
        read, batch = self._read(x, ctx), x.shape[0]
        count, width = self.latents.tensor.shape
        made = expand(self.latents.weight(x.trace), batch, count, width)
        seen = ctx.stream if self.pixels is None else Sequences(batch, read.shape[1])
        ctx = ctx.asking(Sequences(batch, count), read, seen)
        made = self.encoder(made, ctx)
        return made if self.decoder is None else self.decoder(made, ctx._replace(memory=None))

    def _read(self, x: Tensor, ctx: Context) -> Tensor:
        trace, batch = x.trace, x.shape[0]
        if self.pixels is not None and self.side is not None:
            colours, places, projection = self.pixels
            number = self.side * self.side
            made = colours(trace.given((batch, number, colours.colours), trace.weights_format, "pixels"))
            where = projection(expand(places.weight(trace), batch, *places.tensor.shape))
            return cat([made, where])
        if not self.tables:
            return trace.given((*x.shape, self.width), trace.weights_format, "vectors")
        made = self.tables[0](x, ctx)
        for table in self.tables[1:]:
            made = add(made, table(x, ctx))
        return made


class WithoutMore(Module):
    """A model that already makes what is asked of it."""

    kind = "model"

    base: Perceiver

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of token ids."""
        return self.base(x, ctx)


class WithPlaces(WithHead):
    """A model that predicts a word for each place that there is, whichever are asked for."""

    def read(self, made: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """The loss, or the logits."""
        return super().read(made, x, ctx._replace(run=ctx.run.replaced(logits="all")))
