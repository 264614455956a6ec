"""Compressed convolutional attention: queries and keys are mixed over time before they meet."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num, floor_div
from tfcalc.leaves import attend, convolution, linear, parameter
from tfcalc.leaves.convolution import depthwise
from tfcalc.workload import Sequences, Workload


class ConvolvedAttention(NamedTuple):
    """Queries and keys pass two convolutions, one of each channel and one of each head, of ``kernels`` tokens.

    Half of the values are made of the token, half of the one before it. Keys are scaled by a trained number a head.

    Source: Figliolia et al. 2025 (CCA, arXiv 2510.04476), section 3; transformers' ZayaAttention.
    """

    d_model: Num
    n_heads: Num
    n_kv_heads: Num
    head_dim: Num
    kernels: tuple[Num, Num]
    bias: bool = False

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        a, d, t = self.n_heads, self.head_dim, stream.tokens
        return Component(
            name,
            "attention",
            parts=(
                self._projections(t),
                Component("qk_norm", "norm", parts=(parameter("temp", self.n_kv_heads, minor=True),)),
                attend(
                    "attend",
                    a,
                    d,
                    d,
                    run.twice_pairs(stream, stream, causal=True),
                    t * stream.length,
                    recomputes_scores=run.recomputes_scores,
                ),
                linear("o_proj", a * d, self.d_model, t, bias=self.bias, letter="O"),
            ),
        )

    def _projections(self, tokens: Num) -> Component:
        h, d, queries, keys = self.d_model, self.head_dim, self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        by_channel, by_head = self.kernels
        half: Num = floor_div(keys, 2)
        return Component(
            "qkv_proj",
            "projection",
            parts=(
                linear("q_proj", h, queries, tokens, bias=self.bias, letter="Q"),
                linear("k_proj", h, keys, tokens, bias=self.bias, letter="K"),
                linear("v_proj_current", h, half, tokens, bias=self.bias, letter="V"),
                linear("v_proj_delayed", h, half, tokens, bias=self.bias, letter="V"),
                depthwise("conv_qk_depthwise", queries + keys, by_channel, tokens),
                convolution("conv_qk_grouped", d, queries + keys, (by_head,), tokens),
            ),
        )
