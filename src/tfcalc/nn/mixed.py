"""Attention by some heads, and beside it convolutions whose kernels are made of the tokens themselves (ConvBERT)."""

from __future__ import annotations

from collections.abc import Iterator

from tfcalc.core.cost import Cost
from tfcalc.core.cost import Tensor as Weight
from tfcalc.core.number import Num
from tfcalc.nn.attention import Attention
from tfcalc.nn.basic import Linear, Stored
from tfcalc.nn.context import Context
from tfcalc.nn.grouped import GroupedMap
from tfcalc.nn.module import Module
from tfcalc.ops.convolution import same_convolution
from tfcalc.ops.elementwise import add, mul
from tfcalc.ops.mixed import convolved
from tfcalc.ops.rows import softmax
from tfcalc.ops.shapes import cat, contiguous, reshape, transpose
from tfcalc.tape.tensor import Tensor


class ChannelConvolution(Module):
    """A convolution over time of each channel by itself, which looks as far ahead as back."""

    kind = "convolution"

    channels: Num
    kernel: Num

    def held(self) -> Cost:
        """W."""
        return Cost(weights=(Weight("w", (self.channels, 1, self.kernel)),))

    def forward(self, x: Tensor, *_: object) -> Tensor:
        """Of b × l × c."""
        (weight,) = self.weights(x.trace)
        return transpose(same_convolution(transpose(x, 1, 2), weight), 1, 2)


class Nearby(Module):
    """What each token makes of its neighbours, by kernels that its query makes with a convolved key.

    The key is a ``depthwise`` and then a ``pointwise`` convolution, with a ``shift``; ``kernel_map`` makes kernels of
    so many tokens (``kernel``), ``value_map`` what they mix.
    """

    depthwise: ChannelConvolution
    pointwise: GroupedMap
    shift: Stored
    kernel_map: Linear
    value_map: Linear
    kernel: Num

    def of(self, x: Tensor, q: Tensor, heads: Num, width: Num) -> Tensor:
        """Of tokens and their queries, of b × l × a·d; of b × l × a × d."""
        near = add(self.pointwise(self.depthwise(x)), transpose(self.shift.weight(x.trace), 0, 1))
        kernels = self.kernel_map(mul(near, q))
        kernels = softmax(reshape(kernels, x.rows * heads, self.kernel, 1))
        values = contiguous(transpose(self.value_map(x), 1, 2))
        return reshape(convolved(values, kernels, heads, width), *x.shape[:2], heads, width)


class MixedAttention(Attention):
    """Half of the width is attention, half are convolutions: each head's kernel is a map of query × convolved key.

    Some classes hold such attention, and never run it (``reads``).

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.3; transformers' ConvBertSelfAttention.
    """

    causal: bool = False
    nearby: Nearby | None = None
    reads: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """The output last."""
        inside = () if self.nearby is None else self.nearby.parts
        return iter((*self.inward, *inside, self.output))

    def runs(self, ctx: Context) -> bool:
        """Unless nobody reads it."""
        return self.reads

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x`` make of each other, and of their neighbours."""
        assert self.nearby is not None
        query, key, value = self.inward
        k, v, q = key(x), value(x), query(x)
        a, d = self.heads, self.key_dim
        beside = self.nearby.of(x, q, a, d)
        given = [transpose(reshape(each, *x.shape[:2], a, d), 1, 2) for each in (q, k, v)]
        mixed = reshape(self.mixed(given, ctx), *x.shape[:2], a, d)
        return self.output(reshape(cat([mixed, beside], axis=2), *x.shape[:2], 2 * a * d))
