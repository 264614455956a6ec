"""Layers that hear: attention and convolutions over time between two halves of a network (the Conformer)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.number import Num
from tfcalc.core.traced import known
from tfcalc.nn.basic import Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.frames import Convolution
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.ops.elementwise import activation, add, mul, scaled
from tfcalc.ops.shapes import part, reshape, split, transpose
from tfcalc.tape.tensor import Tensor


class ConformerLayer(PreNorm):
    """A network, attention, convolutions, and a network, each added to the stream, and a ``last`` norm.

    Of what a network makes, half is added.

    Source: Gulati et al. 2020 (arXiv 2005.08100), section 2.4.
    """

    last: Norm | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One after another."""
        x = super().forward(x, ctx)
        return x if self.last is None else self.last(x, ctx)

    def dropping(self, sub: Module, made: Tensor, ctx: Context) -> Tensor:
        """Half of what a network made."""
        made = super().dropping(sub, made, ctx)
        return scaled(made) if sub.kind == "ffn" else made


class NormedNetwork(Module):
    """A feed-forward network with a norm before it; the parts of the ``network`` stand beside the norm."""

    kind = "ffn"

    norm: Norm
    network: FeedForward | GatedFeedForward

    @property
    def parts(self) -> Iterator[Module]:
        """The norm, and the network's."""
        return iter((self.norm, *self.network.parts))

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of each frame."""
        return self.network.forward(self.norm(x, ctx), ctx)


class GatedByHalf(Module):
    """A norm, a gate, a convolution over time of each channel by itself, and maps of each frame around it.

    The ``gate`` makes twice as many channels, of which one half, with a trained number for each channel, is multiplied
    by the activation of the other. The convolution is filled up on both sides, and what is too much is cut off behind
    the map that follows.
    """

    kind = "convolutions"

    norm: Norm
    gate: Convolution
    biases: tuple[Stored, Stored]
    opens: str
    over_time: Convolution
    across: Convolution
    activation: str
    last: Convolution

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h."""
        x = transpose(self.norm(x, ctx), 1, 2)
        length = x.shape[2]
        x = self._gated(self.gate(x, ctx, length), ctx)
        longer = 0 if known(length) == 0 else length + self.over_time.taps[0] - 1
        x = self.over_time(_channels(x, self.over_time.channels), ctx, longer)
        x = part(self.across(x, ctx, longer), 2, length)
        x = _channels(_activated(self.activation, x, ctx, "act"), self.last.channels)
        return transpose(self.last(x, ctx, length), 1, 2)

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        half = self.biases[0].tensor.shape[0]
        up, gate = split(x, [half, half], 1)
        up, gate = (add(each, self._bias(x, place)) for place, each in enumerate((up, gate)))
        return mul(up, _activated(self.opens, gate, ctx, "glu.act"))

    def _bias(self, x: Tensor, place: int) -> Tensor:
        bias = self.biases[place].weight(x.trace)
        return reshape(bias, 1, bias.shape[0], 1)


def _activated(kind: str, x: Tensor, ctx: Context, name: str) -> Tensor:
    return activation(kind, x, lambda: ctx.backend.activation(kind, x), name)


def _channels(x: Tensor, channels: Num) -> Tensor:
    """With as many channels as a convolution takes: a program can be built with others, but does not run."""
    return reshape(x, x.shape[0], channels, x.shape[2])
