"""Compressed convolutional attention: queries and keys of few heads, mixed over a few tokens by two convolutions."""

from typing import NamedTuple

from tfcalc.blocks.keeping import CONVOLUTION, TOKEN_BEFORE, by_sequence, by_token, keeping
from tfcalc.core.component import Component
from tfcalc.core.number import Num, divide
from tfcalc.core.sharing import without_weights
from tfcalc.leaves import attend, linear, parameter, rotary
from tfcalc.leaves.convolution import depthwise, grouped_convolution
from tfcalc.workload import Sequences, Workload


class ConvolvedAttention(NamedTuple):
    """Queries and keys pass a convolution of each channel over ``kernels[0]`` tokens, then one of each head.

    Half of each value comes from the token before. Keys have a trained temperature for each head; the norms of queries
    and keys have no weights. ``bias`` is that of the linear maps: convolutions always have one.

    Source: Figliolia et al. 2025 (CCA, arXiv 2510.04476), section 3; transformers' ZayaAttention.
    """

    d_model: Num
    n_heads: Num
    n_kv_heads: Num
    head_dim: Num
    kernels: tuple[Num, Num]
    bias: bool = False
    window: int | None = None
    rotary: Num | None = None

    def __call__(self, name: str, stream: Sequences, run: Workload, *, causal: bool = True) -> Component:
        """The block on these sequences."""
        h, a, g, d, t = self.d_model, self.n_heads, self.n_kv_heads, self.head_dim, stream.tokens
        channels, half = (a + g) * d, divide(g * d, 2)
        each, grouped = self.kernels
        padded = t + stream.batch * (grouped - 1)  # what the second convolution reads
        before = linear("qkv_proj.v_proj_delayed", h, half, stream.batch, bias=False, input_gradient=False)
        return Component(
            name,
            "attention",
            parts=(
                linear("qkv_proj.q_proj", h, a * d, t, bias=self.bias, letter="Q"),
                linear("qkv_proj.k_proj", h, g * d, t, bias=self.bias, letter="K"),
                linear("qkv_proj.v_proj_current", h, half, t, bias=self.bias, letter="V"),
                linear("qkv_proj.v_proj_delayed", h, half, t, bias=self.bias, letter="V'"),
                # The first token has none before it: zeros are mapped in its place, unless it is cached.
                *([] if run.decoding else [without_weights(before)._replace(name="qkv_proj.v_proj_delayed[zeros]")]),
                depthwise("qkv_proj.conv_qk_depthwise", channels, each, padded),
                # Each head is a group: its d channels make d channels.
                grouped_convolution("qkv_proj.conv_qk_grouped", d, channels, grouped, t, a + g),
                parameter("qk_norm.temp", g, minor=True),
                *([] if self.rotary is None else [rotary("rotary", (a + g) * t, self.rotary)]),
                keeping(
                    attend(
                        "attend",
                        a,
                        d,
                        d,
                        run.pairs(stream, stream, causal=causal, window=self.window),
                    ),
                    *by_token(stream, stream, g, {"K": d, "V": d}, causal=causal, window=self.window),
                    *by_sequence(stream, CONVOLUTION, channels, each + grouped - 2),
                    *by_sequence(stream, TOKEN_BEFORE, half, 1),
                ),
                linear("o_proj", a * d, h, t, bias=self.bias, letter="O"),
            ),
        )
