"""Encoders of raw sound in stages, each of which shortens the time (VibeVoice's codec)."""

from __future__ import annotations

from math import prod

from tfcalc.core.number import Num
from tfcalc.nn.basic import Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward
from tfcalc.nn.frames import Convolution
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import mul, residual
from tfcalc.ops.shapes import reshape, transpose
from tfcalc.tape.tensor import Tensor


class ConvNextLayer(Module):
    """A convolution of each channel over time, and a network; what each adds is scaled (arXiv 2201.03545)."""

    norm: Norm
    mixer: Convolution
    gamma: Stored
    ffn_norm: Norm
    ffn: FeedForward
    ffn_gamma: Stored
    kind: str = "layer"

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × c × n."""
        made = transpose(self.norm(transpose(x, 1, 2), ctx), 1, 2)
        x = residual(x, self._scaled(self.mixer(made, ctx, x.width), self.gamma), "mixer")
        made = transpose(self.ffn(self.ffn_norm(transpose(x, 1, 2), ctx), ctx), 1, 2)
        return residual(x, self._scaled(made, self.ffn_gamma), "ffn")

    def _scaled(self, x: Tensor, by: Stored) -> Tensor:
        return mul(x, reshape(by.weight(x.trace), x.shape[1], 1))


class CodecStage(Module):
    """A convolution that makes the time so many times (``ratio``) shorter, and layers."""

    kind = "stage"

    conv: Convolution
    layers: Stack | None
    ratio: int

    def forward(self, x: Tensor, ctx: Context, length: Num) -> Tensor:
        """Of b × c × n; of so many places."""
        x = self.conv(x, ctx, length)
        return x if self.layers is None else self.layers(x, ctx)


class Codec(Module):
    """Stages, and a convolution that makes vectors of what the last one has made.

    The source is as long as what comes out: a frame of it is as many samples as all ratios make together.
    """

    kind = "encoder"

    stages: tuple[CodecStage, ...]
    head: Convolution
    channels: Num

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """A vector for each frame; ``x`` are the words beside it."""
        stream, ratios = ctx.run.source, [each.ratio for each in self.stages]
        shape = (stream.batch, self.channels, stream.length * prod(ratios))
        ctx = ctx.alone(stream)
        made = x.trace.given(shape, x.trace.weights_format, "samples")
        for place, each in enumerate(self.stages, 1):
            made = each(made, ctx, stream.length * prod(ratios[place:]))
        return transpose(self.head(made, ctx, stream.length), 1, 2)
