"""Kimi Delta Attention: a gated delta network that forgets each channel of its keys at a rate of its own."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.blocks.keeping import FP32, STATE, by_sequence, keeping
from tfcalc.blocks.recurrence import convolved, states
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.linear_attention import delta_rule
from tfcalc.workload import Sequences


class KimiDeltaAttention(NamedTuple):
    """``n_heads`` states of ``head_dim`` × ``head_dim``; queries, keys and values pass a short convolution.

    The forget gate and the output's gate are as wide as all heads; ``low_rank`` makes each of ``head_dim`` numbers.

    Source: Kimi Linear (arXiv 2510.26692), section 3; transformers' KimiLinearDeltaAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    kernel: Num
    activation: str
    low_rank: bool = True

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, heads, t = self.d_model, self.n_heads, stream.tokens
        width = heads * self.head_dim
        forget = (*self._gate("f", t), parameter("dt_bias", width, minor=True), parameter("A_log", heads, minor=True))
        return Component(
            name,
            "ssm",
            parts=(
                *(linear(each, h, width, t, bias=False) for each in ("q_proj", "k_proj", "v_proj")),
                convolved("conv1d", 3 * width, self.kernel, stream, bias=False),
                activation("activation", self.activation, 3 * t * width),
                Component("forget_gate", "gate", parts=(*forget, activation("softplus", "softplus", t * width))),
                linear("b_proj", h, heads, t, bias=False),
                keeping(
                    delta_rule("scan", states(stream, heads, self.head_dim, self.head_dim), by_channel=True),
                    *by_sequence(stream, STATE, heads, self.head_dim * self.head_dim, FP32),
                ),
                norm("o_norm", "rmsnorm", self.head_dim, t * heads),
                *self._gate("g", t),
                activation("gate", "sigmoid", t * width),
                linear("o_proj", width, h, t, bias=False, letter="O"),
            ),
        )

    def _gate(self, letter: str, tokens: Num) -> Iterator[Component]:
        width = self.n_heads * self.head_dim
        if self.low_rank:
            yield linear(f"{letter}_a_proj", self.d_model, self.head_dim, tokens, bias=False)
            yield linear(f"{letter}_b_proj", self.head_dim, width, tokens, bias=False)
        else:
            yield linear(f"{letter}_proj", self.d_model, width, tokens, bias=False)
