"""Attention by some heads, and beside it convolutions whose kernels are made of the tokens themselves."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.cost import Cost, Product
from tfcalc.core.number import Num, floor_div
from tfcalc.leaves import attend, convolution, linear, parameter
from tfcalc.workload import Sequences, Workload


class MixedAttention(NamedTuple):
    """Half of the width is attention, half are convolutions: each head's kernel is a map of query × convolved key.

    Both halves have ``n_heads`` heads of h/(2a). The convolved key is a depthwise and then a pointwise convolution.

    Source: Jiang et al. 2020 (ConvBERT, arXiv 2008.02496), section 3.3; transformers' ConvBertSelfAttention.
    """

    d_model: Num
    n_heads: int
    kernel: Num

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        h, a, k, t = self.d_model, self.n_heads, self.kernel, stream.tokens
        d = floor_div(h, 2 * a)
        half = a * d
        return Component(
            name,
            "attention",
            parts=(
                *(linear(f"self.{part}", h, half, t, letter=part[0].upper()) for part in ("query", "key", "value")),
                convolution("self.key_conv_attn_layer.depthwise", h, h, (k,), t, groups=h, bias=False),
                convolution("self.key_conv_attn_layer.pointwise", h, half, (1,), t, bias=False),
                parameter("self.key_conv_attn_layer.bias", half, 1, minor=True),
                linear("self.conv_kernel_layer", half, a * k, t),
                linear("self.conv_out_layer", h, half, t),
                Component("convolve", "attend", Cost(products=(Product("kernel · V", (2, t, half, k)),))),
                attend("attend", a, d, d, run.pairs(stream, stream, causal=False)),
                linear("output.dense", h, h, t, letter="O"),
            ),
        )
