"""Encoders of a spectrogram whose layers add a trained number to each score, by how far two frames are apart."""

from __future__ import annotations

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.basic import Buffer, Linear
from tfcalc.nn.context import Context
from tfcalc.nn.encoder import through
from tfcalc.nn.frames import Convolution
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import mul, shifted
from tfcalc.ops.shapes import permute, reshape, transpose
from tfcalc.ops.tables import embedding
from tfcalc.tape.tensor import Tensor


class Standardized(Module):
    """Each bin less its mean, over its deviation: those of all sound that was trained on, which are data."""

    kind = "norm"

    mean: Buffer
    inverse: Buffer

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × bins."""
        by = x.trace.given((self.inverse.tensor.shape[0],), x.dtype, "1/deviation")
        return mul(shifted(x, "less the mean"), by)


class Halvings(Module):
    """Convolutions over time and bins, and a ``map`` of all channels and bins of each frame that is left.

    Those whose kernel is wider than one halve both. Where one has an activation, this stands behind it under the number
    that it has among them.
    """

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bins: Num

    @property
    def halvings(self) -> int:
        """How often time and bins are halved."""
        return sum(map(_halves, self.convolutions))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard, of b × n × bins."""
        length, left, place = ctx.stream.length, self.halvings, 0
        x = reshape(x, x.shape[0], 1, *x.shape[1:])
        for each in self.convolutions:
            left -= _halves(each)
            x = each(x, ctx, 2**left * length, ceil_div(self.bins, 2 ** (self.halvings - left)))
            place += 1
            if each.activation:
                x = ctx.activation(each.activation, x, f"conv.{place}")
                place += 1
        x = transpose(x, 1, 2)
        return self.map(reshape(x, x.shape[0], length, self.map.fan_in))


def _halves(convolution: Convolution) -> bool:
    return any(tap != 1 for tap in convolution.taps)


class DistanceTable(Module):
    """A number for each head and each of so many distances, looked up once for all layers: l² rows."""

    kind = "embedding"

    rows: Num
    heads: Num

    def held(self) -> Cost:
        """E."""
        return Cost(weights=(Weight("E", (self.rows, self.heads)),))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of 1 × a × l × l."""
        (table,) = self.weights(x.trace)
        length = ctx.stream.length
        made = embedding(table, x.trace.new((length, length), "int64", "distances"))
        return reshape(permute(made, (2, 0, 1)), 1, self.heads, length, length)


class SpectrogramEncoder(Module):
    """A spectrogram, standardized; what a stem makes of it; and layers that add numbers of a table to their scores.

    As many frames are heard as the source is long; where tokens are decoded, they have been.
    """

    kind = "encoder"

    first: Standardized
    stem: Halvings
    table: DistanceTable
    layers: Stack

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence; ``x`` are the words beside it."""
        stream, trace = ctx.run.source, x.trace
        ctx = ctx.alone(stream)
        shape = (stream.batch, stream.length * 2**self.stem.halvings, self.stem.bins)
        x = self.stem(self.first(trace.given(shape, trace.weights_format, "spectrogram"), ctx), ctx)
        return through(self.layers, x, ctx._replace(bias=self.table(x, ctx)))
