"""Layers that hear: attention and convolutions over time between two halves of a network (the Conformer)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num, ceil_div
from tfcalc.core.traced import known
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Norm, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.feed_forward import FeedForward, GatedFeedForward
from tfcalc.nn.frames import Convolution
from tfcalc.nn.layers import PreNorm
from tfcalc.nn.module import Module
from tfcalc.ops.einsum import einsum
from tfcalc.ops.elementwise import activation, add, mul, scaled
from tfcalc.ops.frames import batch_norm, gated_by_half
from tfcalc.ops.relative import relative_scores
from tfcalc.ops.shapes import merge_heads, narrow, pad, part, permute, reshape, split, transpose
from tfcalc.ops.tables import looked_up
from tfcalc.tape.tensor import Tensor
from tfcalc.workload import Sequences


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
        x = _channels(ctx.activation(self.activation, x, "act"), self.last.channels)
        return transpose(self.last(x, ctx, length), 1, 2)

    def _gated(self, x: Tensor, ctx: Context) -> Tensor:
        half = self.biases[0].tensor.shape[0]
        up, gate = split(x, [half, half], 1)
        up, gate = (add(each, self._bias(x, place)) for place, each in enumerate((up, gate)))
        return mul(up, ctx.activation(self.opens, gate, "glu.act"))

    def _bias(self, x: Tensor, place: int) -> Tensor:
        bias = self.biases[place].weight(x.trace)
        return reshape(bias, 1, bias.shape[0], 1)


class BatchNorm(Module):
    """A norm of each channel over all batches that were seen."""

    kind = "norm"

    channels: Num

    def held(self) -> Cost:
        """γ and β; and means, variances, and how many batches they are of."""
        buffers = {"mean": "running_mean", "variance": "running_var"}
        return Cost(
            weights=tuple(
                Weight(letter, (self.channels,), minor=True, key=key)
                for letter, key in (("γ", "weight"), ("β", "bias"))
            ),
            buffers=(
                *(Weight(name, (self.channels,), key=key) for name, key in buffers.items()),
                Weight("batches", (), key="num_batches_tracked"),
            ),
        )

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × c × n."""
        weight, bias = self.weights(x.trace)
        seen = (x.trace.given((self.channels,), "float32", name) for name in ("means", "variances"))
        return batch_norm(x, weight, bias, *seen)


class BatchNormed(Module):
    """A norm, a map to twice as many channels, half of which gate the others, a convolution of each channel over time.

    A batch norm, SiLU and a map back follow.
    """

    kind = "convolutions"

    norm: Norm
    up: Convolution
    over_time: Convolution
    batch_norm: BatchNorm
    down: Convolution

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h."""
        length = x.shape[1]
        both = self.up(transpose(self.norm(x, ctx), 1, 2), ctx, length)
        x = activation("sigmoid", narrow(both, self.over_time.channels), lambda: gated_by_half(both), "glu")
        x = self.batch_norm(self.over_time(x, ctx, length), ctx)
        return transpose(self.down(ctx.activation("silu", x, "silu"), ctx, length), 1, 2)


class InBlocks(Attention):
    """Attention of frames within blocks of so many (``context``), with vectors for distances (arXiv 1803.02155).

    A norm stands before it. The last block is filled up; what was filled in is cut off behind it. A program makes its
    scores whatever kernel is asked for.
    """

    context: int = 1
    pre_norm: Norm | None = None
    distances: Stored | None = None

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Of b × n × h."""
        assert self.pre_norm is not None
        b, n, h = x.shape
        count = ceil_div(n, self.context)
        x = self.pre_norm(x, ctx)
        x = reshape(pad(x, 1, count * self.context) if x.trace.lowers else x, b * count, self.context, h)
        ctx = ctx._replace(stream=Sequences(b * count, self.context), run=ctx.run.replaced(kernel="math"))
        q, k, v = self._projected(x, x, ctx)
        bias = self._distances(q)
        made = merge_heads(self._attended(q, k, v, ctx._replace(bias=bias)), self.heads * self.value_dim)
        made = reshape(made, b, count * self.context, made.width)
        return self.output(part(made, 1, n) if x.trace.lowers else reshape(made, b, n, made.width))

    def _distances(self, q: Tensor) -> Tensor:
        """Each query's products with the vectors of how far keys are away."""
        assert self.distances is not None
        places = q.trace.given((self.context, self.context), "int64", "distances")
        vectors = looked_up(self.distances.weight(q.trace), places)
        b, a, n = q.shape[:3]
        relative_scores("relative", permute(q, (2, 0, 1, 3)), vectors, b * n * n)
        if not q.trace.lowers:
            return q.trace.new((b, a, n, n), q.dtype, "scores")
        return scaled(einsum("bhcd,crd->bhcr", q, vectors))


def _channels(x: Tensor, channels: Num) -> Tensor:
    """With as many channels as a convolution takes: a program can be built with others, but does not run."""
    return reshape(x, x.shape[0], channels, x.shape[2])
