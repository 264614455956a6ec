"""Kimi delta attention: a gated delta rule whose state forgets each channel of a key at a rate of its own."""

from collections.abc import Iterator
from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, linear, norm, parameter
from tfcalc.leaves.convolution import depthwise
from tfcalc.leaves.scan import scan
from tfcalc.workload import Sequences


class KimiDeltaAttention(NamedTuple):
    """``n_heads`` states of ``head_dim`` × ``head_dim``, written with strength β and read through a gated norm.

    Queries, keys and values pass a short convolution. Both gates, of forgetting and of the output, are made of the
    input through a vector of ``gate_rank``, or directly where there is none.

    Source: Kimi Linear (arXiv 2510.26692), section 3; transformers' KimiLinearDeltaAttention.
    """

    d_model: Num
    n_heads: Num
    head_dim: Num
    kernel: Num
    activation: str
    gate_rank: Num | None = None

    def __call__(self, name: str, stream: Sequences) -> Component:
        """The block on these sequences."""
        h, a, d, t = self.d_model, self.n_heads, self.head_dim, stream.tokens
        width = a * d
        forget = (
            *self._gate("f", t),
            parameter("dt_bias", width, minor=True),
            activation("activation", "softplus", t * width),
            parameter("A_log", a, minor=True),
        )
        return Component(
            name,
            "ssm",
            parts=(
                *(linear(f"{letter}_proj", h, width, t, bias=False, letter=letter.upper()) for letter in "qkv"),
                depthwise("conv1d", 3 * width, self.kernel, t, bias=False),
                activation("activation", self.activation, t * 3 * width),
                Component("forget_gate", "gate", parts=forget),
                linear("b_proj", h, a, t, bias=False, letter="β"),
                activation("strength", "sigmoid", t * a),
                scan("scan", t, a, d, d, reads=2),
                *self._gate("g", t),
                norm("o_norm", "rmsnorm", d, t * a),
                activation("gate", "sigmoid", t * width),
                linear("o_proj", width, h, t, bias=False, letter="O"),
            ),
        )

    def _gate(self, letter: str, tokens: Num) -> Iterator[Component]:
        width, rank = self.n_heads * self.head_dim, self.gate_rank
        if rank is None:
            yield linear(f"{letter}_proj", self.d_model, width, tokens, bias=False)
        else:
            yield linear(f"{letter}_a_proj", self.d_model, rank, tokens, bias=False)
            yield linear(f"{letter}_b_proj", rank, width, tokens, bias=False)
