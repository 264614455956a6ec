"""An encoder of sound that halves bands and time alike, and maps what it has made to the width of a text."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.basic import Linear, Norm
from tfcalc.nn.context import Context
from tfcalc.nn.frames import Convolution, SoundEncoder
from tfcalc.nn.module import Module
from tfcalc.ops.shapes import contiguous, permute, reshape
from tfcalc.tape.tensor import Tensor


class BandStem(Module):
    """Convolutions over bands and time, each of which halves both, and a map of what is left of each place."""

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bands: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard."""
        stream, length = ctx.stream, ctx.stream.length * 2 ** len(self.convolutions)
        x = x.trace.given((stream.batch, 1, self.bands, length), x.trace.weights_format, "spectrogram")
        for place, each in enumerate(self.convolutions):
            halved = 2 ** (place + 1)
            places: tuple[Num, Num] = (ceil_div(self.bands, halved), stream.length * 2 ** (2 - place))
            x = ctx.activation("gelu", each(x, ctx, *places), f"activation.{place}")
        x = contiguous(permute(x, (0, 3, 1, 2)))
        return self.map(reshape(x, stream.batch, stream.length, self.map.fan_in))


class MapAdapter(Module):
    """A norm, and two maps with an activation between them."""

    kind = "projector"

    norm: Norm
    first: Linear
    last: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each frame."""
        inner = self.first(self.norm(x, ctx))
        return self.last(ctx.activation("gelu", inner))


class AdaptedEncoder(SoundEncoder):
    """An encoder with an adapter behind its norm."""

    adapter: MapAdapter | None = None

    @property
    def parts(self) -> Iterator[Module]:
        """The encoder's, and the adapter."""
        yield from super().parts
        assert self.adapter is not None
        yield self.adapter

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence; ``x`` are the words beside it."""
        assert self.adapter is not None
        return self.adapter(super().forward(x, ctx), ctx)
