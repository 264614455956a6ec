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
        (weight,) = (x.trace.weight(each) for each in self.held().weights)
        return transpose(same_convolution(transpose(x, 1, 2), weight), 1, 2)


class MixedAttention(Attention):
    """Half of the width is attention, half are convolutions: each head's kernel is a map of query × convolved key.

    The convolved key is a ``depthwise`` and then a ``pointwise`` convolution, with a ``shift``; ``kernel_map`` makes
    kernels of so many tokens (``kernel``), ``value_map`` what they mix. Some classes hold such attention, and never run
    it (``reads``).

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.3; transformers' ConvBertSelfAttention.
    """

    depthwise: ChannelConvolution
    pointwise: GroupedMap
    shift: Stored
    kernel_map: Linear
    value_map: Linear
    kernel: Num
    causal: bool = False
    reads: bool = True

    @property
    def parts(self) -> Iterator[Module]:
        """The output last."""
        return iter(
            (*self.inward, self.depthwise, self.pointwise, self.shift, self.kernel_map, self.value_map, self.output)
        )

    def runs(self, ctx: Context) -> bool:
        """Unless nobody reads it."""
        return self.reads

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """What the tokens of ``x`` make of each other, and of their neighbours."""
        query, key, value = self.inward
        k, v = key(x), value(x)
        near = add(self.pointwise(self.depthwise(x)), transpose(self.shift.weight(x.trace), 0, 1))
        q = query(x)
        a, d = self.heads, self.key_dim
        kernels = self.kernel_map(mul(near, q))
        kernels = softmax(reshape(kernels, x.rows * a, self.kernel, 1))
        values = contiguous(transpose(self.value_map(x), 1, 2))
        beside = reshape(convolved(values, kernels, a, d), *x.shape[:2], a, d)
        given = [transpose(reshape(each, *x.shape[:2], a, d), 1, 2) for each in (q, k, v)]
        mixed = reshape(self.mixed(given, ctx), *x.shape[:2], a, d)
        return self.output(reshape(cat([mixed, beside], axis=2), *x.shape[:2], 2 * a * d))
