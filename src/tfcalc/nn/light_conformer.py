"""Layers of light convolutions: attention and a convolution between two half networks (arXiv 2005.08100)."""

from __future__ import annotations

from tfcalc.core.number import Num, ceil_div
from tfcalc.nn.basic import Buffer, Linear, Norm
from tfcalc.nn.chunked import ChunkedAttention
from tfcalc.nn.context import Context
from tfcalc.nn.frames import Convolution
from tfcalc.nn.module import Module
from tfcalc.nn.stack import Stack
from tfcalc.ops.elementwise import activation, added_in_place, pointwise, residual, scaled
from tfcalc.ops.frames import gated_halves
from tfcalc.ops.shapes import contiguous, permute, reshape, transpose
from tfcalc.tape.tensor import Tensor


class SubsampledSpectrogram(Module):
    """Two convolutions that halve time and pitch, each with a norm and an activation, and a map to the layers' width.

    A spectrogram has so many ``bands``. Source: transformers' Gemma4AudioSubSampleConvProjection.
    """

    kind = "embedding"

    first: Convolution
    first_norm: Norm
    second: Convolution
    second_norm: Norm
    map: Linear
    bands: int

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of the source's frames, given beside ``x``, which is not read."""
        trace, heard, quarter = x.trace, ctx.run.source, self.bands // 4
        x = trace.given((heard.batch, 1, heard.length, self.bands), trace.weights_format, "spectrogram")
        length = ceil_div(heard.length, 4)
        x = self._halved(self.first, self.first_norm, x, (ceil_div(heard.length, 2), 2 * quarter), ctx)
        x = self._halved(self.second, self.second_norm, x, (length, quarter), ctx)
        x = contiguous(permute(x, (0, 2, 3, 1)))
        return self.map(reshape(x, heard.batch, length, quarter * self.second.width))

    def _halved(self, one: Convolution, norm: Norm, x: Tensor, places: tuple[Num, Num], ctx: Context) -> Tensor:
        made = norm(permute(one(x, ctx, *places), (0, 2, 3, 1)), ctx)
        made, name = contiguous(permute(made, (0, 3, 1, 2))), f"{one.name.partition('.')[0]}.act"
        return activation("relu", made, lambda: pointwise("relu", made), name)


def added(x: Tensor, made: Tensor, name: str) -> Tensor:
    """``made + x``, where a program adds to what was made in place."""
    return added_in_place(made, x) if x.trace.lowers else residual(x, made, name)


class HalfNetwork(Module):
    """Half of a feed-forward network: norms before and behind, and the result times a number. It may hold limits."""

    kind = "ffn"

    before: Norm
    up: Linear
    down: Linear
    behind: Norm
    activation: str
    limits: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What is added to ``x``."""
        inner = self.up(self.before(pointwise("clamp", x), ctx))
        inner = ctx.activation(self.activation, inner)
        return scaled(self.behind(pointwise("clamp", self.down(inner)), ctx))


class LightConvolution(Module):
    """A gate, a convolution of each channel over the last tokens, and a norm, between two maps."""

    kind = "convolution"

    before: Norm
    start: Linear
    convolution: Convolution
    norm: Norm
    end: Linear
    activation: str
    limits: tuple[Buffer, ...] = ()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What is added to ``x``, of b × l × h."""
        x = gated_halves(self.start(self.before(x, ctx)), "gate")
        x = transpose(self.convolution(transpose(x, 1, 2), ctx, x.shape[1]), 1, 2)
        x = self.norm(pointwise("clamp", x), ctx)
        made = ctx.activation(self.activation, x)
        return self.end(made)


class LightConformerLayer(Module):
    """Half a network, attention, a convolution, half a network, and a norm; the stream is cut off between them.

    Its program does not checkpoint it. Source: transformers' Gemma4AudioLayer.
    """

    kind = "conformer"

    first: HalfNetwork
    mixer: ChunkedAttention
    convolution: LightConvolution
    last: HalfNetwork
    norms: tuple[Norm, Norm, Norm]

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × l × h."""
        before, behind, out = self.norms
        x = added(x, self.first(x, ctx), self.first.name)
        made = self.mixer(before(pointwise("clamp", x), ctx), ctx)
        x = added(x, behind(pointwise("clamp", made), ctx), self.mixer.name)
        x = added(x, self.convolution(x, ctx), self.convolution.name)
        x = added(x, self.last(x, ctx), self.last.name)
        return out(pointwise("clamp", x), ctx)


class Conformer(Module):
    """A spectrogram with a quarter of its frames, layers, and a map."""

    kind = "encoder"

    spectrogram: SubsampledSpectrogram
    layers: Stack
    output: Linear

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of a clip for each sequence, given beside ``x``, which is not read."""
        x = self.spectrogram(x, ctx)
        source = ctx.run.source
        stream = source._replace(length=ceil_div(source.length, 4))
        ctx = ctx._replace(stream=stream, run=ctx.run.replaced(recompute="none", early_stop=False))
        first = self.layers.layers[0]
        assert isinstance(first, LightConformerLayer)
        ctx = ctx._replace(places=first.mixer.sines(x, ctx))
        return self.output(self.layers(x, ctx))
