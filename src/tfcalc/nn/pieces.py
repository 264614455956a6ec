"""Encoders of sound that read a spectrogram piece by piece (Qwen3-ASR)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.core.pairs import Pairs, in_pieces
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear
from tfcalc.nn.context import Context
from tfcalc.nn.frames import Convolution
from tfcalc.nn.module import Module
from tfcalc.ops.select import index
from tfcalc.ops.shapes import contiguous, permute, reshape
from tfcalc.tape.tensor import Tensor

HALVED = 8
"""Three convolutions halve the time, and the bins: what is left of them is rounded up each time."""


class InPieces(Attention):
    """Attention within pieces of so many frames, the last perhaps shorter: no mask, but products of their own."""

    pieces: Num = 0

    def pairs(self, ctx: Context) -> Pairs:
        """Those of each piece."""
        within = ctx.stream.batch * in_pieces(ctx.stream.length, self.pieces)
        return Pairs((2, within), within, ctx.run.fused)


class PiecesStem(Module):
    """Convolutions over time and bins of so many frames at once (a ``piece``), the last of which is filled up.

    A map makes a vector of all bins and channels of a place.
    """

    kind = "stem"

    convolutions: tuple[Convolution, ...]
    map: Linear
    bins: Num
    piece: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame that is heard."""
        trace, stream, made = x.trace, ctx.stream, ceil_div(self.piece, HALVED)
        pieces = stream.batch * ceil_div(stream.length, made)
        x = trace.given((pieces, 1, self.bins, self.piece), trace.weights_format, "spectrogram")
        for place, each in enumerate(self.convolutions, 1):
            x = each.activated(x, ctx, ceil_div(self.bins, 2**place), ceil_div(self.piece, 2**place))
        x = contiguous(permute(x, (0, 3, 1, 2)))
        x = self.map(reshape(x, pieces, made, self.map.fan_in))
        there = trace.new((stream.tokens,), "int64", "frames that are there")
        return index(x, there, (stream.batch, stream.length, x.width))
