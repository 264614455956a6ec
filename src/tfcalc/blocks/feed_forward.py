"""The feed-forward network: two linear maps with an activation between them."""

from typing import NamedTuple

from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.leaves import activation, dropout, linear
from tfcalc.workload import Sequences, Workload


class FeedForward(NamedTuple):
    """``activation(x W_1 + b_1) W_2 + b_2``, on each token by itself.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), eq. 2.
    """

    d_model: Num
    d_ff: Num
    activation: str
    bias: bool
    dropout: bool

    def __call__(self, name: str, stream: Sequences, run: Workload) -> Component:
        """The block on these sequences."""
        inner = stream.tokens * self.d_ff
        drops = self.dropout and run.training
        return Component(
            name,
            "ffn",
            parts=(
                linear("up", self.d_model, self.d_ff, stream.tokens, bias=self.bias, letter="1"),
                activation("activation", self.activation, inner),
                *([dropout("activation_dropout", inner)] if drops else []),
                linear("down", self.d_ff, self.d_model, stream.tokens, bias=self.bias, letter="2"),
            ),
        )
